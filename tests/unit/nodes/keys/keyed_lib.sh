# Is sourced by tests of managers, nodes and users with keys, with the folder of
# the programs as first argument.
set -euo pipefail
bin=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-keys.XXXXXX")
export XDG_RUNTIME_DIR=$work TMPDIR=$work VGPU_KEYS=$work/nobody
unset VGPU_MANAGER
manager=0 node=0
# A program that has lost its cluster waits for another one for ever.
trap 'mapfile -t left < <(jobs -p)
  ((${#left[@]} == 0)) || kill "${left[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work"/*.log >&2 || true
  exit 1
}

source "$(dirname "${BASH_SOURCE[0]}")/../expect.sh"

until_true() { # COMMAND...
  until "$@" </dev/null >"$work/out" 2>"$work/err"; do
    kill -0 "$manager" || fail "the manager ended"
    sleep 0.05
  done
}

# Runs a command with the keys of somebody: as WHO COMMAND...
cat >"$work/as" <<'END'
#!/bin/sh
who=$1
shift
VGPU_KEYS=$(dirname "$0")/$who exec "$@"
END
chmod +x "$work/as"
PATH=$work:$PATH

# A port that is free. Another process may take it first, so try again.
start_manager() {
  for _ in {1..20}; do
    endpoint=tcp://127.0.0.1:$((20000 + RANDOM % 40000))
    rm -rf "$work/owner"
    as owner "$bin/vgpu" keys init "$endpoint" >"$work/out"
    as owner "$bin/vgpu-manager" --listen "$endpoint" --run-dir "$work/run" \
      2>"$work/manager.log" &
    manager=$!
    until grep -q "Listening on" "$work/manager.log"; do
      kill -0 "$manager" 2>/dev/null || continue 2
      sleep 0.05
    done
    return
  done
  fail "the manager does not start"
}

token() { # KIND OPTION...
  as owner "$bin/vgpu" token "$@"
}
