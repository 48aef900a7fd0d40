#!/usr/bin/env bash
# The manager is stopped and continued, several times. Its nodes have lived all
# the time, so no session moves.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: stopped_manager.sh BUILD [--nodes N] [--sessions N] [--stops N]
                          [--seconds N] [--stress] [--lost-after MS] [--seed N]

Starts a cluster of so many nodes (5), whose nodes are lost after MS (2000) of
silence, and so many programs on it (3). Stops its manager so many times (3) for
so many seconds (3) each, and checks after each stop that no session has another
node, worker or epoch. The seed chooses how long the manager runs before each
stop. --stress keeps all processors busy with stress-ng. The large form:

  tests/e2e/stopped_manager.sh build/default --nodes 30 --sessions 30 \
    --stops 50 --stress
EOT
}

case "${1--h}" in
  -h | --help) usage; exit 0 ;;
esac
folder=$1 nodes=5 programs=3 stops=3 seconds=3 stress='' lost_after=2000 seed=1
shift
while (($#)); do
  case $1 in
    --stress) stress=yes; shift; continue ;;
    --nodes | --sessions | --stops | --seconds | --lost-after | --seed) ;;
    *) usage >&2; exit 2 ;;
  esac
  [[ ${2-} =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
  case $1 in
    --nodes) nodes=$2 ;;
    --sessions) programs=$2 ;;
    --stops) stops=$2 ;;
    --seconds) seconds=$2 ;;
    --lost-after) lost_after=$2 ;;
    --seed) seed=$2 ;;
  esac
  shift 2
done
[[ -z $stress ]] || command -v stress-ng >/dev/null ||
  skip "stress-ng is missing; tests/setup.sh installs it"
begin "$folder"
begin_plan "$seed"
steady=$build/tests/e2e/steady
# The programs live as long as the stops take, on any machine.
life=$((life + stops * (seconds + 3) * 4))

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
cluster_up --nodes "$nodes" --lost-after "$lost_after"
pids=()
for ((i = 0; i < programs; ++i)); do
  timeout -k 5 "$life" "$vgpu" run -- "$steady" "$work/tmp/stop" \
    </dev/null >"$work/out/$i" 2>"$work/out/$i.err" &
  pids+=($!)
done
until_true all_run || fail "expected $programs sessions, saw $(places)"
# The clean-up finds it by its environment.
if [[ -n $stress ]]; then
  stress-ng --quiet --cpu "$(nproc)" --temp-path "$work/tmp" </dev/null \
    >"$work/out/stress" 2>&1 &
  stress_pid=$!
fi
before=$(places)
manager=$(status .manager.pid)
say "$(jq 'length' <<<"$before") sessions run on" \
  "$(jq '[.[].node] | unique | length' <<<"$before") of $nodes nodes"
for ((i = 0; i < stops; ++i)); do
  draw phase 500
  sleep "0.$(printf %03d "$phase")" # the moment; nothing is awaited
  stopped=$(uptime)
  kill -STOP "$manager"
  sleep "$seconds"
  kill -CONT "$manager"
  # A verdict about the time in which it was stopped would have come by then.
  until_true has_run "$stopped" "$((seconds + 3))" ||
    fail "the manager does not go on"
  [[ $(places) == "$before" ]] ||
    fail "seed $seed: expected $before after stop $i, saw $(places)"
done
! has_event '.kind == "node-lost"' || fail "a node was taken for lost"
! has_event '.kind == "session-replaced"' || fail "a session was moved"
if [[ -n $stress ]]; then
  stress_status=0 ended_early=
  alive "$stress_pid" || ended_early=yes
  kill "$stress_pid" 2>/dev/null || true
  wait "$stress_pid" || stress_status=$?
  [[ -z $ended_early ]] ||
    fail "stress-ng ended early with $stress_status: $(<"$work/out/stress")"
fi
: >"$work/tmp/stop"
for ((i = 0; i < programs; ++i)); do
  wait "${pids[i]}" || fail "program $i: $(<"$work/out/$i.err")"
done
rm -- "$work/tmp/stop"
cluster_down
check_leaks
say "$stops stops of $seconds s among $nodes nodes and $programs sessions," \
  "seed $seed${stress:+, beside stress-ng}: nobody moved, every epoch is as it was"
