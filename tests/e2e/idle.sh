#!/usr/bin/env bash
# Idle vGPUs are suspended, and return with their next call.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: idle.sh BUILD CASE [mapped|forwarded]

  return  one vGPU is reclaimed again and again; how long its calls took then
  keep    without --idle-after nothing is reclaimed
  eight   eight programs of 30 % of one pGPU's memory each: all finish, alike
  many    many mostly idle vGPUs on two pGPUs that have memory for a few
  turns   the eight again, never idle, where thrice the memory may be promised:
          they take turns with it
  next    the same with three, of which one has room; the manager is killed when
          one has made room, and started again
EOT
}
begin_case $(($# == 3 ? 3 : 2)) "$@"
idler=$build/tests/e2e/idler

reclaimed() {
  "$vgpu" events --json </dev/null |
    jq -s 'map(select(.kind == "session-reclaimed")) | length'
}

# Prints the count, the median and the largest of the numbers, one per line.
median() {
  sort -g | awk '{ x[NR] = $1 } END {
    printf "%d first calls, median %.1f ms, longest %.1f ms\n",
      NR, x[int((NR + 1) / 2)], x[NR] }'
}

was_reclaimed() { (($(reclaimed) >= $1)); } # TIMES

case_return() {
  takes_turns=true
  # The program is idle until it is reclaimed once more.
  on_line() {
    [[ $2 == idle* ]] || return 0
    until_true was_reclaimed "$1" ||
      fail "expected $1 reclaims, saw $(reclaimed)"
  }
  cluster_up --nodes 1
  follow_program idler "$vgpu" run --idle-after 0.3 -- "$idler" 6 turns 16
  ((program_status == 0)) ||
    fail "expected the status 0, saw $program_status: $(<"$work/out/idler.err")"
  has_event '.kind == "session-resumed"' || fail "no event tells of its return"
  say "after a reclaim, with 16 MiB:" \
    "$(awk 'NR > 1 { print $2 }' "$work/out/idler" | median)"
}

# Lets idlers whose input is $turns_pipe be idle until end_turns.
open_turns() {
  turns_pipe=$work/tmp/turns
  mkfifo "$turns_pipe"
  exec {turns}<>"$turns_pipe"
}

end_turns() {
  exec {turns}>&-
  rm -- "$turns_pipe"
}

gpu_is_empty() {
  status_is '.nodes[0].pgpus[0] | .used == 0 and (.sessions | length) == 0'
}

case_keep() {
  cluster_up --nodes 1
  # An option overrides the environment and a profile.
  VGPU_IDLE_AFTER=0.2 "$vgpu" run --idle-after keep -- "$idler" 2 1500 1 \
    >"$work/out/kept" 2>&1 || fail "$(<"$work/out/kept")"
  (($(reclaimed) == 0)) || fail "it was reclaimed although it is kept"
  printf '[lazy]\nidle-after = 0.2\n' >"$work/out/p.toml"
  open_turns
  VGPU_PROFILES=$work/out/p.toml timeout -k 5 "$life" "$vgpu" run \
    --profile lazy -- "$idler" 1 turns 1 <"$turns_pipe" {turns}>&- \
    >"$work/out/lazy" 2>&1 &
  local program=$!
  until_true has_event '.kind == "session-reclaimed"' ||
    fail "it was not reclaimed"
  until_true gpu_is_empty || fail "its GPU is not empty: $(status '.nodes[0]')"
  status_is '.vgpus[0].sessions[0].waiting_because | test("idle")' ||
    fail "status does not say why: $(status '.vgpus[0]')"
  end_turns
  wait "$program" || fail "$(<"$work/out/lazy")"
  expect 2 "$vgpu" run --idle-after 0 -- "$guest" exit 0
  told "--idle-after '0': give seconds from 0.1 to 1000000, or keep"
}

# How many of the eight programs have used their vGPU.
begun() { grep -ls . "$work"/out/program[0-7] | wc -l; }
all_have_begun() { (($(begun) == 8)); }

case_eight() {
  local i pids=() memory
  cluster_up --nodes 1 --memory 4GiB
  memory=$(of_memory 0.3)
  open_turns
  for ((i = 0; i < 8; ++i)); do
    # The end of turns is for the readers alone.
    timeout -k 5 "$life" "$vgpu" run --memory "$memory" --idle-after 0.1 -- \
      "$idler" 3 turns 2 <"$turns_pipe" {turns}>&- >"$work/out/program$i" \
      2>"$work/out/program$i.err" &
    pids+=($!)
  done
  # Three have room. The others begin as those are suspended for them.
  until_true all_have_begun ||
    fail "expected 8 programs to begin, saw $(begun) with $(reclaimed) reclaims"
  end_turns
  for ((i = 0; i < 8; ++i)); do
    wait "${pids[i]}" || fail "program $i: $(<"$work/out/program$i.err")"
  done
  (($(reclaimed) >= 5)) || fail "expected 5 reclaims or more, saw $(reclaimed)"
  say "eight, of which three have room, gave way $(reclaimed) times"
}

preempted() {
  "$vgpu" events --json </dev/null |
    jq -s 'map(select(.kind == "session-preempted")) | length'
}

# Starts so many programs that are never idle, and work until end_busy.
start_busy() { # HOW-MANY MEMORY
  local i
  pids=()
  for ((i = 0; i < $1; ++i)); do
    timeout -k 5 "$life" "$vgpu" run --memory "$2" -- \
      "$build/tests/e2e/steady" "$work/tmp/stop" </dev/null \
      >"$work/out/program$i" 2>"$work/out/program$i.err" &
    pids+=($!)
  done
}

# Ends them. Each checks that all of its steps were made once.
end_busy() {
  local i
  : >"$work/tmp/stop"
  for ((i = 0; i < ${#pids[@]}; ++i)); do
    wait "${pids[i]}" || fail "program $i: $(<"$work/out/program$i.err")"
    grep -q ' rounds$' "$work/out/program$i" ||
      fail "expected 'N rounds' of program $i, saw $(<"$work/out/program$i")"
  done
  rm -- "$work/tmp/stop"
}

# How many sessions had a GPU.
opened() {
  "$vgpu" events --json </dev/null |
    jq -s '[.[] | select(.kind == "session-opened") | .session] | unique | length'
}

have_begun() { (($(opened) == $1)); } # HOW-MANY

case_turns() {
  cluster_up --nodes 1 --memory 4GiB --overcommit 3
  start_busy 8 "$(of_memory 0.3)"
  # No program waits for another's end.
  until_true have_begun 8 || fail "expected 8 sessions that had a GPU, saw" \
    "$(opened): $(status '[.vgpus[].sessions[] | {state, calls}] | tojson')"
  end_busy
  (($(preempted) >= 5)) ||
    fail "expected 5 preemptions or more, saw $(preempted)"
  say "eight, of which three have room, made room $(preempted) times"
}

has_preempted() { (($(preempted) >= 1)); }

case_next() {
  local pid
  cluster_up --nodes 1 --memory 1GiB --overcommit 3
  start_busy 3 700MiB
  until_true has_preempted || fail "no vGPU made room"
  pid=$(status .manager.pid)
  kill_hard "$pid" || fail "cannot kill the manager"
  until_true dead "$pid"
  "$vgpu" restart-manager --run-dir "$run_dir" </dev/null \
    >"$work/out/restart" 2>&1 || fail "restart: $(<"$work/out/restart")"
  until_true have_begun 3 || fail "expected 3 sessions that had a GPU, saw" \
    "$(opened): $(status '[.vgpus[].sessions[] | {state, calls}] | tojson')"
  end_busy
}

case_many() {
  local vgpus=${VGPU_E2E_IDLE:-24} i pids=() memory began nodes=2
  # There are two pGPUs, or those of the host, each with room for four vGPUs.
  ! on_nvidia || nodes=1
  cluster_up --nodes "$nodes" --memory 4GiB
  memory=$(of_memory 0.25)
  began=$(milliseconds)
  for ((i = 0; i < vgpus; ++i)); do
    timeout -k 5 "$life" "$vgpu" run --memory "$memory" --idle-after 0.2 -- \
      "$idler" 3 3000 2 </dev/null >"$work/out/idler$i" \
      2>"$work/out/idler$i.err" &
    pids+=($!)
  done
  for ((i = 0; i < vgpus; ++i)); do
    wait "${pids[i]}" || fail "vGPU $i: $(<"$work/out/idler$i.err")"
  done
  (($(reclaimed) > vgpus)) || fail "only $(reclaimed) reclaims"
  say "$vgpus vGPUs in $(($(milliseconds) - began)) ms:" \
    "$(cat "$work"/out/idler*[0-9] | median)"
}

run_case "$@"
