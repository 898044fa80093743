#!/usr/bin/env bash
# Runs k6 against a separate hub: each named scenario, or all four.
#
#     monitoring/k6/run.sh [transfers] [lookups] [quotes] [payments]
#
# RATE, SECONDS, VUS and similar variables are forwarded; see README.md. K6 names a k6. If there is none in the PATH, k6
# is built from the Go module go.k6.io/k6 into out/k6. The script ends all processes that it starts.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/monitoring/lib.sh"

k6=${K6:-$(command -v k6 || true)}
if [[ -z $k6 ]]; then
    k6=$root/out/k6/k6
    if [[ ! -x $k6 ]]; then
        command -v go >/dev/null || { echo "k6 is not installed, and there is no Go to build it with" >&2; exit 69; }
        echo "building k6 into out/k6; this takes some minutes" >&2
        GOBIN=$root/out/k6 GOFLAGS=-mod=mod nice -n 10 go install -p "${GO_JOBS:-2}" go.k6.io/k6@v1.8.1
    fi
fi

work=$(mktemp -d)
trap 'end_all; rm -rf "$work"' EXIT
start_hub "$work"
start_simulators "$work" --sockets "127.0.0.1:$(free_port)"
sockets=$(sed -n 's/^sockets //p' "$work/sim.out")

failed=0
for scenario in "${@:-transfers lookups quotes payments}"; do
    for name in $scenario; do
        echo "== $name =="
        HUB=$hub SOCKETS=$sockets "$k6" run --quiet --no-color "$here/$name.js" || failed=1
    done
done
exit $failed
