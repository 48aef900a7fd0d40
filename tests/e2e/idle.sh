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

case_return() {
  cluster_up --nodes 1
  expect 0 "$vgpu" run --idle-after 0.3 -- "$idler" 6 1000 16
  (($(reclaimed) >= 6)) || fail "it was reclaimed only $(reclaimed) times"
  has_event '.kind == "session-resumed"' || fail "no event tells of its return"
  say "after a reclaim, with 16 MiB: $(median <"$work/out/stdout")"
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
  VGPU_PROFILES=$work/out/p.toml timeout 30 "$vgpu" run \
    --profile lazy -- "$idler" 1 2000 1 </dev/null >"$work/out/lazy" 2>&1 &
  local program=$!
  until_true 10 has_event '.kind == "session-reclaimed"' ||
    fail "it was not reclaimed"
  gpu_is_empty || fail "its GPU is not empty: $(status '.nodes[0]')"
  status_is '.vgpus[0].sessions[0].waiting_because | test("idle")' ||
    fail "status does not say why: $(status '.vgpus[0]')"
  wait "$program" || fail "$(<"$work/out/lazy")"
  expect 2 "$vgpu" run --idle-after 0 -- "$guest" exit 0
  told "--idle-after '0': give seconds from 0.1 to 1000000, or keep"
}

case_eight() {
  local i pids=() memory
  undisturbed_heat undisturbed 600 96 50
  cluster_up --nodes 1 --memory 4GiB
  memory=$(of_memory 0.3)
  for ((i = 0; i < 8; ++i)); do
    timeout 100 "$vgpu" run --memory "$memory" --idle-after 0.1 -- \
      "$heat" 600 96 50 150 </dev/null >"$work/out/heat$i" \
      2>"$work/out/heat$i.err" &
    pids+=($!)
  done
  for ((i = 0; i < 8; ++i)); do
    wait "${pids[i]}" || fail "program $i: $(<"$work/out/heat$i.err")"
    same undisturbed "heat$i" || fail "program $i prints something else"
  done
  (($(reclaimed) > 0)) || fail "no vGPU was suspended for another"
  say "eight, of which three have room, gave way $(reclaimed) times"
}

preempted() {
  "$vgpu" events --json </dev/null |
    jq -s 'map(select(.kind == "session-preempted")) | length'
}

case_turns() {
  local i pids=() memory
  undisturbed_heat undisturbed 1100 96 50
  cluster_up --nodes 1 --memory 4GiB --overcommit 3
  memory=$(of_memory 0.3)
  for ((i = 0; i < 8; ++i)); do
    timeout 100 "$vgpu" run --memory "$memory" -- "$heat" 1100 96 50 150 \
      </dev/null >"$work/out/heat$i" 2>"$work/out/heat$i.err" &
    pids+=($!)
  done
  # No program waits for another's end: all begin before the first has ended.
  until_true 30 all_have_begun || fail "some have not begun"
  kill -0 "${pids[@]}" || fail "some have ended before others began"
  for ((i = 0; i < 8; ++i)); do
    wait "${pids[i]}" || fail "program $i: $(<"$work/out/heat$i.err")"
    same undisturbed "heat$i" || fail "program $i prints something else"
  done
  (($(preempted) >= 5)) || fail "they made room $(preempted) times"
  say "eight, of which three have room, made room $(preempted) times"
}

all_have_begun() {
  local i
  for ((i = 0; i < 8; ++i)); do [[ -s $work/out/heat$i ]] || return; done
}

has_preempted() { (($(preempted) >= 1)); }

case_next() {
  local i pids=() pid
  undisturbed_heat undisturbed 4000 96 400
  cluster_up --nodes 1 --memory 1GiB --overcommit 3
  for ((i = 0; i < 3; ++i)); do
    timeout 80 "$vgpu" run --memory 700MiB -- "$heat" 4000 96 400 400 \
      </dev/null >"$work/out/heat$i" 2>"$work/out/heat$i.err" &
    pids+=($!)
  done
  until_true 30 has_preempted || fail "no vGPU made room"
  pid=$(status .manager.pid)
  kill_hard "$pid" || fail "cannot kill the manager"
  until_true 5 dead "$pid"
  "$vgpu" restart-manager --run-dir "$run_dir" </dev/null \
    >"$work/out/restart" 2>&1 || fail "restart: $(<"$work/out/restart")"
  for ((i = 0; i < 3; ++i)); do
    wait "${pids[i]}" || fail "program $i: $(<"$work/out/heat$i.err")"
    same undisturbed "heat$i" || fail "program $i prints something else"
  done
}

case_many() {
  local vgpus=${VGPU_E2E_IDLE:-24} i pids=() memory began nodes=2
  # There are two pGPUs, or those of the host, each with room for four vGPUs.
  ! on_nvidia || nodes=1
  cluster_up --nodes "$nodes" --memory 4GiB
  memory=$(of_memory 0.25)
  began=$(milliseconds)
  for ((i = 0; i < vgpus; ++i)); do
    timeout 100 "$vgpu" run --memory "$memory" --idle-after 0.2 -- \
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
