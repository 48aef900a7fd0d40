#!/usr/bin/env bash
# Snapshots: the time of a recovery does not grow with a program's run time, and
# the program's output does not change if a process dies during or after one.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: snapshots.sh BUILD CASE mapped|forwarded

  bounded  ten times the rounds: recovered in about the same time
  worker   the worker dies, again and again, during and after snapshots
  during   worker, client and both die while a snapshot is written
  node     its node dies
  client   the client dies after the log was trimmed, and then the worker
  both     client and worker die at once
  move     migrated, suspended and resumed with a trimmed log, and killed
  promised many short calls, under the default protection: a late death repeats
           what the promise allows, and not the whole journal
  dear     the promise may cost nothing: an event and the status say what holds
  standby  a standby serves the program as soon as its worker dies
  heat     heat's result is the same, bit for bit
EOT
}
begin_case 3 "$@"
mover=$build/tests/e2e/mover
often=(--protect snapshot --snapshot-every 100ms)

on_line() { :; }

first_snapshot() {
  await_event '.kind == "session-snapshot"' >"$work/out/snapshot" ||
    fail "no event tells of a snapshot"
}

replays() {
  "$vgpu" events --json </dev/null |
    jq -s 'map(select(.kind == "session-replayed")) | length'
}

ballast=0

run_mover() { # ROUNDS OPTION...
  local rounds=$1
  shift
  undisturbed undisturbed "$mover" loose "$rounds" 0 "$ballast"
  follow_program disturbed "$vgpu" run "$@" -- \
    "$mover" loose "$rounds" 40 "$ballast"
  not_noticed
  ! has_event '.kind == "session-lost"' || fail "it was lost"
}

more_replays() { # THAN
  (($(replays) > $1))
}

# Kills a worker and waits for the recovery. The program continues meanwhile.
kill_and_wait() {
  local before
  before=$(replays)
  until_true kill_its_worker || fail "no worker to kill"
  until_true more_replays "$before" || fail "nothing was replayed"
}

# Measures a recovery after so many rounds: the median of five times, in
# milliseconds, from the new worker's lease to the replay's end.
measure() { # ROUNDS OPTION...
  local at=$1 before
  shift
  before=$(last_event)
  on_line() {
    (($1 == at)) || return 0
    local i
    for i in 1 2 3 4 5; do kill_and_wait; done
  }
  run_mover $((at + 150)) "$@"
  "$vgpu" events --json </dev/null |
    jq -s "map(select(.kind == \"session-replayed\" and .number > $before))" \
      >"$work/out/replays"
  median=$(jq 'map(.milliseconds) | sort | .[2]' "$work/out/replays")
  say "from round $at on, ${*}: replayed in" \
    "$(jq -r 'map(.milliseconds | round) | join(" ")' "$work/out/replays") ms," \
    "$(jq -r 'map(.bytes / 1e6 * 10 | round / 10) | join(" ")' \
      "$work/out/replays") MB"
}

case_bounded() {
  local short
  cluster_up --nodes 1
  measure 30 --protect journal
  measure 300 --protect journal
  measure 30 "${often[@]}"
  short=$median
  measure 300 "${often[@]}"
  # A busy host adds some tens of milliseconds. A recovery whose time grows with
  # the run would add hundreds.
  [[ -z ${E2E_TIMES-} ]] || jq -n -e "$median < $short * 1.2 + 40" >/dev/null ||
    fail "after 30 rounds $short ms, after 300 $median ms"
  # A round appends some 300 KiB: 300 of them are 90 MB.
  jq -e 'all(.[]; .bytes < 8388608)' "$work/out/replays" >/dev/null ||
    fail "more was replayed than was called since the last snapshot"
}

case_worker() {
  on_line() {
    (($1 % 7 == 0)) || return 0
    until_true kill_its_worker || fail "no worker to kill"
  }
  cluster_up --nodes 1
  run_mover 40 "${often[@]}"
}

# Checks whether a worker is writing a state, for which it has a file open.
writes() { # PID
  [[ -n $(find "/proc/$1/fd" -lname '/memfd:vgpu-s[nt]*' -print -quit) ]]
}

kill_while_it_writes() { # worker|client|both
  local worker client
  worker=$(session 'select(.state == "running") | .worker_pid')
  client=$(client_of_session)
  until_true writes "$worker" || fail "no snapshot is written"
  [[ $1 == worker ]] || kill_hard "$client" || fail "cannot kill the client"
  [[ $1 == client ]] || kill_hard "$worker" || fail "cannot kill the worker"
  say "killed while a snapshot was written: $1"
}

case_during() {
  ballast=256
  on_line() {
    (($1 == 5)) || return 0
    kill_while_it_writes worker
    until_true more_replays 0 || fail "nothing was replayed"
    kill_while_it_writes client
    await_event '.kind == "session-adopted"' >"$work/out/adopted" ||
      fail "no other client took it up"
    kill_while_it_writes both
    until_true more_replays 1 || fail "nothing was replayed"
  }
  cluster_up --nodes 1
  # A large snapshot is taken every few seconds.
  run_mover 300 "${often[@]}"
  (($(replays) == 2)) || fail "not two replays"
}

case_node() {
  on_line() {
    (($1 == 12)) || return 0
    first_snapshot
    kill_hard "$(node_pid "$(session .node)")" || fail "cannot kill the node"
  }
  cluster_up --nodes 2
  run_mover 24 "${often[@]}"
}

case_client() {
  on_line() {
    case $1 in
      12)
        first_snapshot
        kill_hard "$(client_of_session)" || fail "cannot kill the client"
        await_event '.kind == "session-adopted"' >/dev/null ||
          fail "no other client took it up"
        until_true kill_its_worker || fail "no worker to kill"
        ;;
    esac
  }
  cluster_up --nodes 1
  run_mover 24 "${often[@]}"
  (($(replays) >= 1)) || fail "nothing was replayed"
}

case_both() {
  on_line() {
    (($1 == 12)) || return 0
    first_snapshot
    kill_hard "$(client_of_session)" || fail "cannot kill the client"
    until_true kill_its_worker || fail "no worker to kill"
  }
  cluster_up --nodes 1
  run_mover 24 "${often[@]}"
}

# A session with a trimmed log can be moved, and is protected at its new place.
case_move() {
  move() { # COMMAND
    until_true "$vgpu" "$1" 1 </dev/null >"$work/out/move" 2>&1 ||
      fail "vgpu $1: $(<"$work/out/move")"
  }
  on_line() {
    (($1 == 8)) || return 0
    first_snapshot
    move migrate
    move suspend
    await_event '.kind == "session-resumed"' >"$work/out/resumed" ||
      fail "it was not resumed"
    kill_and_wait
    move migrate
  }
  cluster_up --nodes 2
  run_mover 150 "${often[@]}"
  (($(replays) == 1)) || fail "not one replay"
}

# The variables are those that a program can set without `vgpu run`.
case_promised() {
  on_line() {
    (($1 == short_lines - 5)) || return 0
    first_snapshot
    until_true kill_its_worker || fail "no worker to kill"
    until_true more_replays 0 || fail "nothing was replayed"
  }
  export VGPU_RECOVER_WITHIN=50ms VGPU_PROTECT_COST=100
  cluster_up --nodes 1
  run_short_calls
  "$vgpu" events --json </dev/null |
    jq -s 'map(select(.kind == "session-replayed"))' >"$work/out/replays"
  local launched=$(((short_lines - 5) * per_line)) replayed
  replayed=$(jq -c 'map(.calls // 0)' "$work/out/replays")
  say "$launched kernels were launched, $replayed calls replayed"
  jq -e "length == 1 and .[0] * 3 < $launched" <<<"$replayed" >/dev/null ||
    fail "too many calls were replayed: $replayed of more than $launched"
}

case_dear() {
  tells() { [[ $("$vgpu" status </dev/null) == *'recovers in about '* ]]; }
  on_line() {
    (($1 == short_lines - 5)) || return 0
    await_event '.kind == "recovery-time"' >"$work/out/told" ||
      fail "no event tells in what time it recovers"
    until_true tells || fail "the status does not tell it"
  }
  export VGPU_RECOVER_WITHIN=50ms VGPU_PROTECT_COST=0
  cluster_up --nodes 1
  run_short_calls
  jq -e '(.text | test("recovers in about .* snapshots would cost")) and
    .milliseconds > 50' "$work/out/told" >/dev/null ||
    fail "the event tells something else: $(<"$work/out/told")"
  ! has_event '.kind == "session-snapshot"' || fail "a snapshot was taken"
}

# Runs heat on a small plate, so that most of its time is the calls' own.
# The grid makes the calls take so long that a promise of 50 ms is broken on any
# machine.
short_lines=150 per_line=400
run_short_calls() {
  local of_heat=($((short_lines * per_line)) 64 "$per_line" 0)
  undisturbed_heat undisturbed "${of_heat[@]}"
  follow_program disturbed "$vgpu" run -- "$heat" "${of_heat[@]}"
  not_noticed
}

stands_by() { [[ $(session .standby) == true ]]; }

# Prints the processes for the program's session, except its worker.
standby_of_session() {
  local node
  node=$(node_pid "$(session .node)")
  pgrep -P "$node" -f -- "vgpu-worker .*--session $(session .id) " |
    grep -vx "$(session .worker_pid)"
}

case_standby() {
  local next
  export VGPU_STANDBY_MEMORY=64MiB
  on_line() {
    (($1 == 20 || $1 == 40)) || return 0
    until_true stands_by || fail "there is no standby"
    "$vgpu" status --detail </dev/null |
      grep "a standby has its objects" >/dev/null ||
      fail "the status does not tell of it"
    next=$(standby_of_session) || fail "there is no standby's process"
    kill_and_wait
    [[ $(session .worker_pid) == "$next" ]] ||
      fail "it is not served by its standby, process $next"
  }
  cluster_up --nodes 1
  run_mover 200 "${often[@]}"
}

case_heat() {
  on_line() {
    case $1 in
      5 | 10 | 15) until_true kill_its_worker || fail "no worker to kill" ;;
    esac
  }
  cluster_up --nodes 2
  undisturbed_heat heat0 600 96 50 30
  follow_program heat1 "$vgpu" run "${often[@]}" -- "$heat" 600 96 50 30
  ((program_status == 0)) || fail "heat ended with $program_status"
  same heat0 heat1 || fail "heat printed something else"
}

run_case "$@"
