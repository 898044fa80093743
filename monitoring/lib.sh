# Functions for the scripts here: a hub and simulated DFSPs on free loopback ports, ended by process id. Sourced, not
# run.
# shellcheck shell=bash

upesi=${UPESI:-$root/target/release/upesi}
started=()

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits up to 30 s until a command succeeds.
until_true() {
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    echo "gave up waiting for: $*" >&2
    return 1
}

# start NAME DIR COMMAND...: starts it in the background, with its output in DIR/NAME.out and DIR/NAME.err.
start() {
    local name=$1 directory=$2
    shift 2
    "$@" >"$directory/$name.out" 2>"$directory/$name.err" &
    started+=($!)
}

# Starts a new hub, and sets hub and admin to its base URLs. Further arguments are serve's.
start_hub() {
    local directory=$1 fspiop_port admin_port
    shift
    [[ -x $upesi ]] || { echo "no $upesi: run make build first" >&2; return 69; }
    fspiop_port=$(free_port) admin_port=$(free_port)
    hub=http://127.0.0.1:$fspiop_port admin=http://127.0.0.1:$admin_port
    start hub "$directory" "$upesi" serve --data "$directory/data" --fspiop "127.0.0.1:$fspiop_port" \
        --admin "127.0.0.1:$admin_port" "$@"
    until_true curl -fsS "$admin/health"
}

# Starts the DFSPs of examples/scheme.toml and onboards them. Further arguments are sim's.
start_simulators() {
    local directory=$1 port
    shift
    port=$(free_port)
    start sim "$directory" "$upesi" sim --listen "127.0.0.1:$port" --hub "$hub" --currency KES "$@"
    until_true curl -fsS "http://127.0.0.1:$port/_sim/dfsps"
    sed "s|http://127.0.0.1:5000|http://127.0.0.1:$port|" "$root/examples/scheme.toml" >"$directory/scheme.toml"
    "$upesi" scheme apply "$directory/scheme.toml" --admin "$admin" >"$directory/scheme.out"
}

end_all() {
    local index
    for ((index = ${#started[@]} - 1; index >= 0; index--)); do
        kill "${started[index]}" 2>/dev/null || true
    done
    wait "${started[@]}" 2>/dev/null || true
    started=()
}
