#!/usr/bin/env bash
# Four hosts, as network namespaces on one bridge: a manager, two nodes, and the
# program. They use separate folders and abstract sockets, although they run on
# one machine.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: hosts.sh BUILD CASE

  kill    the node that serves the program is killed
  cut     its link is cut, and stays so
  heal    its link is cut, and comes back after the vGPU has moved: the old
          worker, which had stopped by itself, is ended
  fence   the same, but the old worker is frozen and wakes up later: it is
          fenced
  blink   the link is cut for a moment, too short for anything to move
  manager the manager is killed and started again
  far     the program's host is far away: 120 ms there and back, all the time
  sharing two processes, each with its vGPU on a host of its own, cannot share
          memory; on one host they can
  bulk    a program that moves much has two connections to its worker
EOT
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# == 2)) || { usage >&2; exit 2; }
begin "$1"
source "$(dirname "${BASH_SOURCE[0]}")/clusters/network.sh"
case_name=$2
arguments=(900 96 20 25)
# The program runs long enough for a link to come back.
case $case_name in
  heal | fence) arguments=(900 96 20 200) ;;
  far)
    source "$(dirname "${BASH_SOURCE[0]}")/clusters/slow_links.sh"
    arguments=(100 96 20 0)
    ;;
esac

run_heat() {
  moved=
  undisturbed_heat undisturbed "${arguments[@]}"
  make_network
  start_hosts
  [[ $case_name != far ]] || delay_link program 60
  follow_program disturbed env "XDG_RUNTIME_DIR=$work/program" \
    ip netns exec "$net-program" "$vgpu" run -- "$heat" "${arguments[@]}"
  ((program_status == 0)) ||
    fail "heat ended with $program_status: $(<"$work/out/disturbed.err")"
  same undisturbed disturbed || fail "heat prints other lines"
}

# -- disturbances -------------------------------------------------------------

remember() {
  node=$(session .node)
  worker=$(session .worker_pid)
  old_epoch=$(session .epoch)
  [[ -n $node && $worker -gt 0 ]] || fail "no worker serves heat"
}

moved_away() {
  status_is "[.vgpus[].sessions[]] | length == 1 and .[0].state == \"running\"
    and .[0].node != \"$node\" and .[0].epoch > $old_epoch"
}

await_move() {
  local began
  began=$(milliseconds)
  until_true moved_away || fail "the vGPU does not move away from $node"
  say "moved away from $node after $(($(milliseconds) - began)) ms"
  moved=yes
}

await_node_back() {
  until_true status_is "[.nodes[] | select(.name == \"$node\")
    | .state] == [\"alive\"]" || fail "node $node does not come back"
}

worker_gone() { ! alive "$worker"; }
one_worker() { (($(daemons vgpu-worker | wc -l) == 1)); }

case_kill() {
  (($1 == 15)) || return 0
  remember
  kill_hard "${pid_on[$node]}" || fail "cannot kill node $node"
  await_move
  until_true worker_gone || fail "the worker outlives its node"
  # Starts the node again, so that the cluster at the end is the same as before.
  wait "${pid_on[$node]}" 2>/dev/null || true
  if [[ $node == a ]]; then start_node a 2; else start_node b 3; fi
}

case_cut() {
  (($1 == 15)) || return 0
  remember
  cut "$node"
  await_move
  # No process can reach the old worker, so it must have stopped by itself.
  until_true grep -q "no call is executed" "$work/out/node-$node" ||
    fail "the old worker executes calls behind the cut"
}

case_heal() {
  case $1 in
    15) case_cut 15 ;;
    25)
      heal "$node"
      await_node_back
      until_true worker_gone || fail "the old worker runs on"
      until_true one_worker || fail "several workers: $(daemons vgpu-worker)"
      moved_away || fail "the vGPU went back"
      ;;
  esac
}

case_fence() {
  case $1 in
    15)
      remember
      kill -STOP "$worker"
      cut "$node"
      await_move
      alive "$worker" || fail "a frozen worker cannot end"
      ;;
    25)
      heal "$node"
      event=$(await_event '.kind == "fenced"') ||
        fail "the old worker is not fenced"
      say "$(jq -r .text <<<"$event")"
      (($(jq .epoch <<<"$event") < $(session .epoch))) ||
        fail "the epoch in force is fenced: $event"
      kill -CONT "$worker" 2>/dev/null || true
      until_true worker_gone || fail "the fenced worker runs on"
      await_node_back
      until_true one_worker || fail "several workers: $(daemons vgpu-worker)"
      moved_away || fail "the vGPU went back"
      ;;
  esac
}

case_blink() {
  (($1 == 15)) || return 0
  remember
  cut "$node"
  sleep 0.15 # how long the cut lasts; nothing is awaited
  heal "$node"
}

# The worker answers all the time, but late.
case_far() { :; }

case_manager() {
  case $1 in
    15)
      remember
      kill_hard "${pid_on[manager]}"
      wait "${pid_on[manager]}" 2>/dev/null || true
      ;;
    25)
      local began
      began=$(milliseconds)
      start_manager
      until_true status_is "[.vgpus[].sessions[]
        | [.node, .worker_pid, .epoch, .state, .connected]]
        == [[\"$node\", $worker, $old_epoch, \"running\", true]]
        and ([.nodes[].state] == [\"alive\", \"alive\"])" ||
        fail "expected the session with worker $worker on $node, saw $(status .)"
      took=$(($(milliseconds) - began))
      within 2000 "$took" "the status is right again"
      ;;
  esac
}

shares() { # NODE NODE OUTCOME OUTCOME-OF-A-DESCRIPTOR
  expect 0 env "XDG_RUNTIME_DIR=$work/program" ip netns exec "$net-program" \
    "$vgpu" run -- "$build/tests/e2e/sharer" "$1" "$2"
  [[ $(<"$work/out/stdout") == \
    "memory $3"$'\n'"event $3"$'\n'"descriptor $4" ]] ||
    fail "between $1 and $2: $(<"$work/out/stdout")"
}

between_hosts() {
  shares a a cudaSuccess CUDA_SUCCESS
  shares a b cudaErrorMapBufferObjectFailed CUDA_ERROR_NOT_SUPPORTED
  grep -q 'another host' "$work/out/node-b" || fail "no log says why"
}

much() {
  expect 0 env "XDG_RUNTIME_DIR=$work/program" ip netns exec "$net-program" \
    "$vgpu" run -- "$build/tests/cuda/big_copies"
  [[ $(<"$work/out/stdout") == ok ]] || fail "it prints $(<"$work/out/stdout")"
  grep -hq 'has a second connection' "$work/out"/node-[ab] ||
    fail "its worker has heard of no second connection"
}

# These cases do not run heat.
case $case_name in
  sharing | bulk)
    make_network
    start_hosts
    if [[ $case_name == bulk ]]; then much; else between_hosts; fi
    stop_hosts
    check_leaks
    exit
    ;;
esac

on_line() { "case_$case_name" "$@"; }
declare -F "case_$case_name" >/dev/null || { usage >&2; exit 2; }
run_heat
case $case_name in
  kill | cut | heal | fence)
    [[ $moved == yes ]] || fail "heat ended before anything happened"
    has_event '.kind == "session-replaced"' || fail "no session-replaced"
    has_event '.kind == "session-replayed"' || fail "no session-replayed"
    ;;
  far)
    # A late answer is one of a slow network or of a slow machine.
    [[ -z ${E2E_TIMES-} ]] || ! has_event '.kind == "session-suspect"' ||
      fail "its worker is suspected"
    [[ -z ${E2E_TIMES-} ]] || ! has_event '.kind == "session-replaced"' ||
      fail "its worker is replaced"
    ;;
  blink) until_true status_is '[.nodes[].state] == ["alive", "alive"]' ;;
  manager) ((took)) || fail "heat ended before the manager was back" ;;
esac
[[ $case_name != far ]] || speed_link program
stop_hosts
check_leaks
