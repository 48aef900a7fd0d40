#!/usr/bin/env bash
# A program with objects of every kind is suspended, resumed, migrated, and
# drained off its node, and must print what it prints undisturbed, byte for
# byte.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: movement.sh BUILD CASE mapped|forwarded

  suspend  suspended, and brought back by its next call
  hold     suspended until it is resumed by name; its GPU is empty meanwhile
  none     without any protection
  client   its client dies while it is suspended
  migrate  to another node and back, to another GPU, and heat as well
  drain    its node is drained, and takes nothing until that is undone
  crowd    nowhere to go to: told so, and it runs on
  failure  the node that it goes to dies: it runs on where there is one
  replay   a replay is checked: a kernel that gives other results is reported,
           one that does not is not
  modules  with modules of PTX: the next worker compiles them before the session
           stands still, and loads them at their addresses afterwards
  strict   the same with --on-divergence error: the one program gets an error
           from its next call on, and the other one none; and where `vgpu set`
           sets it while the program runs
  covered  with --on-divergence snapshot: programs whose results differ each time
           notice no death, and nothing that they have read is made otherwise
  in_place pinned memory that kernels and program write: snapshotted, migrated
           and suspended (mapped only: where calls are forwarded, what a new
           worker tells of the memory may meet what the program just wrote)
EOT
}
begin_case 3 "$@"
mover=$build/tests/e2e/mover
rounds=24 pause=60
done_moves=0

on_line() { :; }

move() { # COMMAND ARGUMENT...
  order "$@"
  done_moves=$((done_moves + 1))
}

refused_with() { # WORDS COMMAND ARGUMENT...
  local words=$1
  shift
  ! timeout -k 5 "$patience" "$vgpu" "$@" </dev/null >"$work/out/move" 2>&1 ||
    fail "vgpu $* should have been refused"
  grep -Eq "$words" "$work/out/move" || fail "vgpu $*: $(<"$work/out/move")"
  done_moves=$((done_moves + 1))
}

events_of() { # KIND
  "$vgpu" events --json </dev/null |
    jq -s "map(select(.kind == \"$1\" and .milliseconds > 0)) | length"
}

other() { [[ $(session .node) == a ]] && echo b || echo a; }

run_mover() { # MOVES OPTION...
  local moves=$1
  shift
  undisturbed undisturbed "$mover" loose "$rounds" 0
  follow_program disturbed "$vgpu" run "$@" -- "$mover" "$rounds" \
    "$pause"
  not_noticed
  ((done_moves == moves)) || fail "$done_moves commands of $moves were given"
  ! has_event '.kind == "session-replayed"' || fail "something was replayed"
}

case_suspend() {
  on_line() {
    case $1 in
      4 | 8) move suspend 1 ;;
      12) move suspend vgpu/1 ;;
    esac
  }
  cluster_up --nodes 1
  run_mover 3
  (($(events_of session-resumed) == 3)) || fail "it was not resumed three times"
}

no_worker() { [[ -z $(daemons vgpu-worker) ]]; }

# Suspends the vGPU for longer than the program pauses between its calls.
long_suspended() {
  has_event '.kind == "session-suspended" and now - .time > 0.55'
}

# The program waits in its next call; this brings it back.
resume_later() {
  until_true test -e "$work/tmp/looked" && until_true long_suspended ||
    return
  # The program's next call would have happened by now.
  status_is '.vgpus[0].sessions[0].state == "suspended"' || {
    echo "it ran on although it was suspended" >"$work/out/late"
    return 1
  }
  timeout -k 5 "$patience" "$vgpu" resume 1 </dev/null >"$work/out/late" 2>&1
}

case_hold() {
  on_line() {
    case $1 in
      4)
        move suspend 1 --hold
        status_is '.vgpus[0].sessions[0] | .state == "suspended" and .held' ||
          fail "status shows: $(status '.vgpus[0].sessions[0]')"
        [[ $(status '.nodes[0].pgpus[0] | .used, (.sessions | length)') == \
          $'0\n0' ]] || fail "its GPU is not empty"
        until_true no_worker || fail "its worker is still there"
        : >"$work/tmp/looked"
        ;;
    esac
  }
  cluster_up --nodes 1
  resume_later &
  local helper=$!
  run_mover 1
  rm -- "$work/tmp/looked"
  wait "$helper" || fail "vgpu resume: $(<"$work/out/late")"
  has_event '.kind == "session-resumed" and .milliseconds > 500' ||
    fail "no event tells of it"
}

# A migration needs no journal.
case_none() {
  on_line() {
    case $1 in
      4 | 8) move migrate 1 ;;
      12) move suspend 1 ;;
    esac
  }
  cluster_up --nodes 2
  run_mover 3 --protect none
}

# The client's death loses the state that it has, but not the journal.
case_client() {
  on_line() {
    case $1 in
      4)
        move suspend 1 --hold
        kill_hard "$(client_of_session)" || fail "cannot kill the client"
        await_event '.kind == "session-adopted"' >/dev/null ||
          fail "no other client took it up"
        move resume 1
        ;;
    esac
  }
  cluster_up --nodes 1
  undisturbed undisturbed "$mover" loose "$rounds" 0
  follow_program disturbed "$vgpu" run -- "$mover" loose "$rounds" "$pause"
  same undisturbed disturbed || fail "it printed something else"
  has_event '.kind == "session-replayed"' || fail "nothing was replayed"
  ! has_event '.kind == "replay-differs"' || fail "the replay differs"
}

case_migrate() {
  on_line() {
    case $1 in
      3) move migrate 1 --to "$(other)" ;;
      6) move migrate 1 ;;
      9) move migrate 1 --to "$(other)/0" ;;
      12) move migrate 1 --to "$(session .node)/1" ;;
    esac
  }
  cluster_up --nodes 2 --gpus-per-node 2
  run_mover 4
  (($(events_of session-migrated) == 4)) ||
    fail "it was not migrated four times"
  say "pauses in ms: $("$vgpu" events --json |
    jq -rs 'map(select(.kind == "session-migrated") | .milliseconds | round) |
            join(" ")')"
  on_line() {
    case $1 in
      4 | 8) move migrate "$(status '.vgpus[0].id')" ;;
    esac
  }
  done_moves=0
  undisturbed_heat heat0 600 96 50 30
  follow_program heat1 "$vgpu" run -- "$heat" 600 96 50 30
  same heat0 heat1 || fail "heat printed something else"
  ((done_moves == 2)) || fail "heat was not migrated twice"
}

case_drain() {
  on_line() {
    case $1 in
      4)
        from=$(session .node)
        move drain "$from"
        [[ $(session .node) != "$from" ]] || fail "it is still on $from"
        ;;
      8)
        refused_with drained migrate 1 --to "$from"
        move drain "$from" --undo
        move migrate 1 --to "$from"
        ;;
    esac
  }
  cluster_up --nodes 2
  run_mover 4
}

case_crowd() {
  on_line() {
    case $1 in
      3) refused_with 'cannot be migrated' migrate 1 ;;
      5) refused_with 'no vGPU 7' suspend 7 ;;
      7) refused_with "no node 'x'" migrate 1 --to x ;;
      9) refused_with 'still has vGPU 1' drain a ;;
    esac
  }
  cluster_up --nodes 1
  run_mover 4
}

case_failure() {
  on_line() {
    case $1 in
      5)
        # The target node stands still and cannot start a worker in time.
        local to
        to=$(other)
        kill -STOP "$(node_pid "$to")"
        ! timeout -k 5 "$patience" "$vgpu" migrate 1 --to "$to" </dev/null \
          >"$work/out/move" 2>&1 || fail "that cannot have worked"
        kill -KILL "$(node_pid "$to")" || true
        done_moves=$((done_moves + 1))
        ;;
    esac
  }
  cluster_up --nodes 2
  run_mover 1
}

# Counts the workers that replayed this vGPU's calls, or told that they differ.
workers_with() { # KIND VGPU
  "$vgpu" events --json </dev/null | jq -s "[.[] | select(.kind == \"$1\"
    and .vgpu == $2) | .epoch] | unique | length"
}

told_by() { # COUNT KIND VGPU
  (($(workers_with "$2" "$3") >= $1))
}

# Runs a program whose worker is killed at each of these lines, and waits each
# time for the event of this kind, if there is one. There is no snapshot, so
# that a replay repeats all that the program has read.
follow_killed() { # NAME VGPU KIND LINES OPTION... -- PROGRAM ARGUMENT...
  local name=$1 number=$2 kind=$3 lines_to_kill=" $4 " kills=0
  shift 4
  on_line() {
    [[ $lines_to_kill == *" $1 "* ]] || return 0
    until_true kill_its_worker || fail "no worker to kill"
    kills=$((kills + 1))
    [[ $kind == - ]] || until_true told_by "$kills" "$kind" "$number" ||
      fail "no $kind after death $kills"
  }
  follow_program "$name" "$vgpu" run --protect-cost 0 "$@"
}

# A program that gives the same results again notices no death.
replay_is_same() { # OPTION...
  undisturbed undisturbed "$mover" loose "$rounds" 0
  follow_killed disturbed 1 session-replayed '6 12 18' "$@" -- "$mover" loose \
    "$rounds" "$pause"
  ((program_status == 0)) || fail "it ended with $program_status"
  same undisturbed disturbed || fail "it printed something else"
  ! has_event '.kind == "replay-differs"' ||
    fail "a deterministic program is said to differ"
}

case_replay() {
  cluster_up --nodes 1
  replay_is_same
  replay_differs 2 '6 12 18' "$mover" clock "$rounds" "$pause"
  # Two threads of the device add floats in a varying order.
  (($(nproc) == 1)) || {
    lines_of_program=12
    replay_differs 3 6 "$guest" floats 12 "$pause"
  }
}

# Prints what the nodes' logs tell of objects that a worker made ahead.
made_ahead() {
  grep -ho 'of [0-9]* objects besides memory, [0-9]* were made ahead' \
    "$run_dir"/node-*.log || true
}

# Migrates, and tells whether the next worker had made objects ahead. It has not
# where it opens its devices so late that the session goes without.
migrate_ahead() {
  local before
  before=$(made_ahead | wc -l)
  move migrate 1 --to "$(other)"
  (($(made_ahead | wc -l) > before))
}

case_modules() {
  local program=$build/tests/e2e/modules ahead
  on_line() {
    case $1 in
      3 | 9) until_true migrate_ahead || fail "nothing is made ahead" ;;
      6) move suspend 1 ;;
    esac
  }
  cluster_up --nodes 2
  undisturbed undisturbed "$program" "$rounds" 0
  follow_program disturbed "$vgpu" run -- "$program" "$rounds" "$pause"
  not_noticed
  ((done_moves >= 3)) || fail "$done_moves commands of 3 were given"
  ! has_event '.kind == "session-replayed"' || fail "something was replayed"
  ahead=$(made_ahead)
  say "$ahead"
  # It has four modules and an unloaded one when it migrates for the first time.
  awk '$2 < 5 || $6 != $2 { bad = 1 } END { exit bad }' <<<"$ahead" ||
    fail "not all objects were made ahead: $ahead"
}

replay_differs() { # VGPU LINES PROGRAM ARGUMENT...
  local number=$1 lines_to_kill=$2
  shift 2
  follow_killed nondeterministic "$number" replay-differs "$lines_to_kill" \
    -- "$@"
  ((program_status == 0)) || fail "it ended with $program_status"
  await_event ".kind == \"replay-differs\" and .vgpu == $number
    and .calls >= 1 and (.text | test(\"the program has read\"))" \
    >"$work/out/event" || fail "no event tells how the replay differs"
  say "$(jq -r .text "$work/out/event")"
}

case_strict() {
  cluster_up --nodes 1
  replay_is_same --on-divergence error
  replay_is_error 2 3 "$mover" clock "$rounds" "$pause"
  replay_is_error 3 8 "$mover" clock "$rounds" "$pause"
  replay_is_error 4 13 "$mover" clock "$rounds" "$pause"
  (($(nproc) == 1)) || {
    lines_of_program=12
    replay_is_error 5 6 "$guest" floats 12 "$pause"
  }
  set_while_it_runs
}

# A running vGPU gets another setting: so its next death is an error.
set_while_it_runs() {
  local number
  lines_of_program=
  on_line() {
    (($1 == 3)) || return 0
    number=$(status '.vgpus[0].id')
    order set "$number" on-divergence=error recover-within=700ms protect-cost=0
    status_is ".vgpus[0] | .on_divergence == \"error\" and
      .recover_within == 0.7 and .protect_cost == 0" ||
      fail "the status does not tell the new settings"
    until_true kill_its_worker || fail "no worker to kill"
  }
  follow_program set "$vgpu" run -- "$mover" clock "$rounds" "$pause"
  ((program_status == 9)) || fail "it ended with $program_status"
  await_event ".kind == \"session-lost\" and .vgpu == $number" \
    >"$work/out/event" || fail "no session-lost of vGPU $number"
}

replay_is_error() { # VGPU LINE PROGRAM ARGUMENT...
  local number=$1 line=$2 kind
  shift 2
  follow_killed nondeterministic "$number" - "$line" --on-divergence error \
    -- "$@"
  ((program_status == 9)) || fail "it ended with $program_status"
  # The one name is the runtime's and the other the driver's, and either may
  # make the next call.
  grep -Eq 'cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE' \
    "$work/out/nondeterministic.err" ||
    fail "it got another error: $(<"$work/out/nondeterministic.err")"
  for kind in replay-differs session-lost; do
    await_event ".kind == \"$kind\" and .vgpu == $number" >"$work/out/event" ||
      fail "no $kind of vGPU $number"
    say "$(jq -r .text "$work/out/event")"
  done
  ! has_event ".kind == \"session-replayed\" and .vgpu == $number" ||
    fail "its replay is said to have been taken"
}

case_covered() {
  local seed=${E2E_SEED:-1} lines
  rounds=20 pause=10
  lines=$(some_of 4 $((rounds - 3)) "$seed")
  say "killed at the rounds $lines(seed $seed)"
  cluster_up --nodes 1
  undisturbed undisturbed "$guest" digest "$rounds" 0
  follow_killed disturbed 1 - "$lines" --on-divergence snapshot -- "$guest" \
    digest "$rounds" "$pause"
  ((program_status == 0)) || fail "it ended with $program_status"
  same undisturbed disturbed || fail "it printed something else"
  has_event '.kind == "session-replayed"' || fail "nothing was replayed"
  ! has_event '.kind == "replay-differs"' || fail "a replay differs"
  ! has_event '.kind == "session-lost"' || fail "it was lost"
}

case_in_place() {
  local program=$build/tests/e2e/zero_copy
  takes_turns=true
  on_line() {
    case $1 in
      3)
        await_event '.kind == "session-snapshot"' >"$work/out/snapshot" ||
          fail "no event tells of a snapshot"
        ;;
      5) move migrate 1 --to "$(other)" ;;
      8) move suspend 1 ;;
    esac
  }
  cluster_up --nodes 2
  undisturbed undisturbed "$program" "$rounds"
  follow_program disturbed "$vgpu" run --protect snapshot \
    --snapshot-every 50ms -- "$program" "$rounds" 1
  not_noticed
  ((done_moves == 2)) || fail "$done_moves commands of 2 were given"
}

run_case "$@"
