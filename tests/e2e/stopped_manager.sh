#!/usr/bin/env bash
# The manager is stopped and continued, several times. Its nodes have lived all
# the time, so no session moves.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: stopped_manager.sh BUILD NODES STOPS SECONDS
EOT
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# == 4)) || { usage >&2; exit 2; }
begin "$1"
nodes=$2 stops=$3 seconds=$4
steady=$build/tests/e2e/steady
programs=3

# Prints each session's place, worker and epoch.
places() {
  status '[.vgpus[].sessions[] | {id, epoch, state, node, worker_pid}]
    | sort_by(.id) | tojson'
}

all_run() {
  status_is "[.vgpus[].sessions[] | select(.state == \"running\")]
    | length == $programs"
}

# Tells whether the manager has run for so long since it had this uptime.
has_run() { # UPTIME SECONDS
  status_is ".manager.uptime >= $1 + $2"
}

uptime() { status .manager.uptime; }

# Nodes may be late on a busy machine, but not for as long as the manager is.
cluster_up --nodes "$nodes" --lost-after 2000
pids=()
for ((i = 0; i < programs; ++i)); do
  timeout -k 5 "$life" "$vgpu" run -- "$steady" "$work/tmp/stop" \
    </dev/null >"$work/out/$i" 2>"$work/out/$i.err" &
  pids+=($!)
done
until_true all_run || fail "expected $programs sessions, saw $(places)"
before=$(places)
manager=$(status .manager.pid)
for ((i = 0; i < stops; ++i)); do
  stopped=$(uptime)
  kill -STOP "$manager"
  sleep "$seconds"
  kill -CONT "$manager"
  # A verdict about the time in which it was stopped would have come by then.
  until_true has_run "$stopped" "$((seconds + 3))" ||
    fail "the manager does not go on"
  [[ $(places) == "$before" ]] ||
    fail "expected $before after stop $i, saw $(places)"
done
! has_event '.kind == "node-lost"' || fail "a node was taken for lost"
! has_event '.kind == "session-replaced"' || fail "a session was moved"
: >"$work/tmp/stop"
for ((i = 0; i < programs; ++i)); do
  wait "${pids[i]}" || fail "program $i: $(<"$work/out/$i.err")"
done
rm -- "$work/tmp/stop"
cluster_down
check_leaks
