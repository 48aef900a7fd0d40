#!/usr/bin/env bash
# The manager is killed while a program runs, and started again.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: manager_restart.sh BUILD CASE

  plain  the program runs on without its manager, which is started again
  node   the node dies while there is no manager
  idle   a manager with no sessions
EOT
}

begin_case 2 "$@"
arguments=(1000 96 20 20)
killed_at=10 restarted_at=20

# Prints where sessions run, with the workers' processes, which must not change.
picture() {
  status '{nodes: [.nodes[] | {name, pid, state}],
    sessions: [.vgpus[].sessions[]
      | {id, epoch, state, node, worker_pid, program, pid, client, connected}]}
    | tojson'
}

kill_manager() {
  local pid
  pid=$(status .manager.pid)
  kill_hard "$pid" || fail "cannot kill the manager"
  until_true dead "$pid"
}

right_again() { [[ $(picture) == "$before" ]]; }

# Starts the manager again. The status must become right.
restart_manager() {
  local began
  began=$(milliseconds)
  "$vgpu" restart-manager --run-dir "$run_dir" </dev/null \
    >"$work/out/restart" 2>&1 || fail "restart: $(<"$work/out/restart")"
  until_true "$@" || fail "expected the status from before, $before," \
    "saw $(picture)"
  took=$(($(milliseconds) - began))
  within 2000 "$took" "the status is right again"
}

elsewhere() {
  status_is '[.vgpus[].sessions[]] | length == 1 and .[0].state == "running"
    and .[0].epoch > 1'
}

plain_on_line() {
  case $1 in
    "$killed_at")
      before=$(picture)
      kill_manager
      ;;
    "$restarted_at") restart_manager right_again ;;
  esac
}

node_on_line() {
  case $1 in
    "$killed_at")
      before=$(picture)
      local node
      node=$(node_pid "$(session .node)")
      kill_manager
      kill_hard "$node" || fail "cannot kill the node"
      # This cannot wait for a later line, because without its node and a
      # manager the program waits.
      "$vgpu" restart-manager --run-dir "$run_dir" </dev/null \
        >"$work/out/restart" 2>&1 || fail "restart: $(<"$work/out/restart")"
      until_true elsewhere || fail "not placed anew: $(picture)"
      ;;
  esac
}

run_heat() {
  undisturbed_heat undisturbed "${arguments[@]}"
  cluster_up --nodes 2
  follow_program disturbed "$vgpu" run -- "$heat" "${arguments[@]}"
  ((program_status == 0)) || fail "heat ended with $program_status"
  same undisturbed disturbed || fail "heat prints other lines"
  until_true status_is '[.vgpus[].sessions[]] == []' ||
    fail "the session is not closed"
}

case $2 in
  plain)
    on_line() { plain_on_line "$@"; }
    run_heat
    ((took)) || fail "heat ended before the manager was back"
    has_event '.kind == "session-opened"' ||
      fail "the events from before are gone"
    ! has_event '.kind == "session-replayed"' ||
      fail "a live worker was replaced because its manager died"
    ;;
  node)
    on_line() { node_on_line "$@"; }
    run_heat
    ;;
  idle)
    cluster_up --nodes 2
    before=$(picture)
    kill_manager
    expect 3 "$vgpu" status
    restart_manager right_again
    expect 0 "$vgpu" run -- "$guest" exit 0
    ;;
  *) usage >&2; exit 2 ;;
esac
cluster_down
check_leaks
