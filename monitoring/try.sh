#!/usr/bin/env bash
# Tests the monitoring: rules and their tests with promtool, then a hub with simulated DFSPs under load and a Prometheus
# beside it, which gets every query of the dashboards and rules. `make monitor`.
#
# Installs Debian's prometheus if it is missing and the user is root. The script ends all processes that it starts.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
. "$here/lib.sh"

"$root/.ci/tools" tests

echo "── rules"
promtool check config "$here/prometheus.yml"
(cd "$here/rules/tests" && promtool test rules alerts.yml)

work=$(mktemp -d)
trap 'end_all; rm -rf "$work"' EXIT

echo "── a hub, eight DFSPs, load"
start_hub "$work"
start_simulators "$work"
"$upesi" lab run payments --target "$hub" --admin "$admin" --currency KES --dfsps 8 --vus 8 --duration "${SECONDS_OF_LOAD:-20}s" \
    --out "$work/lab" >"$work/lab.out" 2>"$work/lab.err" &
load=$!
started+=("$load")

port=$(free_port) textfile_port=$(free_port)
mkdir "$work/textfile"
start textfile "$work" python3 -m http.server "$textfile_port" --bind 127.0.0.1 --directory "$work/textfile"
touch "$work/textfile/metrics"
sed -e "s|127.0.0.1:4001|${admin#http://}|" -e "s|127.0.0.1:9100|127.0.0.1:$textfile_port|" -e "s|rules/|$here/rules/|" \
    -e 's/_interval: 5s/_interval: 1s/' "$here/prometheus.yml" >"$work/prometheus.yml"
start prometheus "$work" prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" \
    --web.listen-address="127.0.0.1:$port" --log.level=warn
prometheus=http://127.0.0.1:$port
until_true curl -fsS "$prometheus/-/ready"
echo "   hub $hub, admin $admin, Prometheus $prometheus"

wait "$load" || { cat "$work/lab.err" >&2; echo "the load did not pass" >&2; exit 1; }
"$upesi" lab metrics "$work/lab" >"$work/textfile/metrics"

echo "── every query of the dashboards and rules"
python3 "$here/ask.py" "$prometheus"
