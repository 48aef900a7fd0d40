#!/usr/bin/env bash
# Two managers and a real etcd: when the leader is gone, the other one leads.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: leaders.sh BUILD CASE

  kill    the leader is killed while a program runs; then the program's node
  freeze  the leader is frozen, and wakes up when another leads
  cut     the leader's link is cut, and comes back when another leads
  held    the leader is killed while a vGPU is suspended until it is resumed
  leave   the leader is told to end: another leads at once
  etcd    etcd does not answer for a moment, and for longer

With E2E_KEYS=1 all have keys. Both managers then share their file.
EOT
}

begin_case 2 "$@"
[[ $(type -P etcd) ]] || skip "no etcd (Debian's etcd-server)"
# The program runs long enough for a change of leader.
arguments=(1000 96 20 200)
takeover_within=3000

# -- the cluster --------------------------------------------------------------

declare -A pid_of=() endpoint_of=()
# A prefix for commands that run on the programs' host.
as_program=()

# etcd has no option for "any free port".
start_etcd() {
  local attempt peer_port
  for attempt in 1 2 3 4 5; do
    etcd_port=$(some_port) peer_port=$((etcd_port + 1))
    mkdir -m 700 "$work/etcd"
    etcd --data-dir "$work/etcd/data" --logger zap --log-outputs stderr \
      --listen-client-urls "http://127.0.0.1:$etcd_port" \
      --advertise-client-urls "http://127.0.0.1:$etcd_port" \
      --listen-peer-urls "http://127.0.0.1:$peer_port" \
      --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
      --initial-cluster "default=http://127.0.0.1:$peer_port" \
      </dev/null >"$work/out/etcd" 2>&1 &
    pid_of[etcd]=$!
    until_true etcd_tells 'serving .*client traffic|address already in use' ||
      fail "etcd does not come up"
    etcd_tells 'address already in use' || return 0
    say "etcd did not get ports $etcd_port and $peer_port (try $attempt)"
    wait "${pid_of[etcd]}" || true
    rm -rf -- "$work/etcd"
  done
  fail "etcd does not start: $(tail -n 3 "$work/out/etcd")"
}

etcd_tells() { grep -qE "$1" "$work/out/etcd"; }

start_manager() { # NAME PORT
  endpoint_of[$1]=tcp://127.0.0.1:$2
  mkdir -m 700 "$work/$1"
  start_listening "$work/out/manager-$1" env VGPU_LOG=info \
    "$(keys_of manager)" "$build/bin/vgpu-manager" \
    --listen "${endpoint_of[$1]}" --run-dir "$work/$1" \
    --etcd "http://127.0.0.1:$etcd_port" || return
  pid_of[$1]=$manager_pid
}

# Keys name the managers' endpoints before these listen.
start_managers() {
  local attempt port name
  for attempt in {1..20}; do
    port=$(some_port)
    export VGPU_MANAGER=tcp://127.0.0.1:$port,tcp://127.0.0.1:$((port + 1))
    ! has_keys || init_keys "$VGPU_MANAGER"
    ! { start_manager x "$port" && start_manager y $((port + 1)); } || return 0
    say "the managers did not get port $port and the next (try $attempt)"
    for name in x y; do
      [[ -z ${pid_of[$name]-} ]] || end_hard "${pid_of[$name]}"
      rm -rf -- "${work:?}/$name"
    done
  done
  fail "the managers do not start: $(tail -n 3 "$work"/out/manager-?)"
}

start_node() { # NAME
  local bind=ipc
  mkdir -m 700 "$work/$1"
  if has_keys; then
    bind=127.0.0.1
    join_as_node "$1"
  fi
  env "$(keys_of "$1")" "$build/bin/vgpu-node" --name "$1" \
    --manager "$VGPU_MANAGER" --device cpu --bind "$bind" \
    --run-dir "$work/$1" </dev/null >>"$work/out/node-$1" 2>&1 &
  pid_of[$1]=$!
}

start_all() {
  start_etcd
  start_managers
  ! has_keys || join_as_admin
  start_node a
  start_node b
  until_true status_is '[.nodes[] | select(.state == "alive")] | length == 2' ||
    fail "the nodes do not join"
}

stop_all() {
  local name
  for name in a b x y etcd; do
    # A killed process could not clean up.
    if kill -TERM "${pid_of[$name]}" 2>/dev/null && [[ $name != etcd ]]; then
      wait "${pid_of[$name]}" || fail "$name ended with $?"
      find "$work/$name" -mindepth 1 ! -name "manager.store*" >"$work/out/left"
      [[ ! -s $work/out/left ]] || fail "$name leaves $(<"$work/out/left")"
    fi
    wait "${pid_of[$name]}" 2>/dev/null || true
    rm -rf -- "${work:?}/$name"
  done
  rm -rf -- "${work:?}/keys"
  unset VGPU_MANAGER
}

# Puts each process on its own host (network.sh).
use_hosts() {
  hosts+=(second etcd)
  declare -gA host_of=([x]=manager [y]=second)
  start_all() { start_all_hosts; }
  stop_all() { stop_all_hosts; }
}

start_all_hosts() {
  local host name etcd=http://10.99.0.6:2379
  make_network
  endpoint_of=([x]=tcp://10.99.0.1:7070 [y]=tcp://10.99.0.5:7070)
  export VGPU_MANAGER=${endpoint_of[x]},${endpoint_of[y]}
  ! has_keys || init_keys "$VGPU_MANAGER"
  for host in "${hosts[@]}"; do mkdir -m 700 "$work/$host"; done
  on etcd etcd --data-dir "$work/etcd/data" --logger zap --log-outputs stderr \
    --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
    </dev/null >"$work/out/etcd" 2>&1 &
  pid_of[etcd]=$!
  until_true etcd_tells 'serving .*client traffic' ||
    fail "etcd does not come up"
  for name in x y; do
    on "${host_of[$name]}" env VGPU_LOG=info "$(keys_of manager)" \
      "$build/bin/vgpu-manager" --listen "${endpoint_of[$name]}" \
      "${without_keys[@]}" --etcd "$etcd" \
      </dev/null >>"$work/out/manager-$name" 2>&1 &
    pid_of[$name]=$!
  done
  # shellcheck disable=SC2034 # start_node (network.sh) takes it
  manager_endpoint=$VGPU_MANAGER
  at_manager=(ip netns exec "$net-program")
  as_program=(env "XDG_RUNTIME_DIR=$work/program" "${at_manager[@]}")
  ! has_keys || join_as_admin
  start_node a 2
  start_node b 3
  until_true status_is '[.nodes[] | select(.state == "alive")] | length == 2' ||
    fail "the nodes do not join"
}

stop_all_hosts() {
  local pid
  for pid in "${pid_on[@]}" "${pid_of[x]}" "${pid_of[y]}" "${pid_of[etcd]}"; do
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  local host
  for host in "${hosts[@]}" keys; do rm -rf -- "${work:?}/$host"; done
  unset VGPU_MANAGER
}

# -- leadership ---------------------------------------------------------------

# Prints where sessions run, with the workers' processes, which must not change.
picture() {
  status '{nodes: [.nodes[] | {name, pid, state}],
    sessions: [.vgpus[].sessions[]
      | {id, epoch, state, node, worker_pid, program, pid, client, connected}]}
    | tojson'
}

right_again() { [[ $(picture) == "$before" ]]; }

remember() {
  before=$(picture)
  term=$(status .manager.term)
  leader=x standby=y
  [[ $(status .manager.endpoint) == "${endpoint_of[x]}" ]] ||
    leader=y standby=x
}

# Waits until the other manager leads, which must be in time and know the
# cluster.
await_takeover() { # SINCE
  local led
  led=$(await_event ".kind == \"manager-leads\"
    and (.text | contains(\"term $((term + 1))\"))") ||
    fail "$standby does not lead"
  took=$(($(jq '.time * 1000 | floor' <<<"$led") - $1))
  until_true right_again ||
    fail "expected the status from before, $before, saw $(picture)"
  within "$takeover_within" "$took" "$standby leads"
}

# Checks that a former leader reports that it stands by, and names the leader.
stands_by() { # NAME
  expect 3 env -u VGPU_MANAGER "${at_manager[@]}" "$vgpu" status \
    --manager "${endpoint_of[$1]}"
  told "is a standby, and ${endpoint_of[$standby]} leads"
}

knows_that_it_stands_by() { (stands_by "$1") 2>/dev/null; }

second_program() {
  expect 0 "${as_program[@]}" "$vgpu" run -- "$guest" exit 0
}

elsewhere() {
  status_is "[.vgpus[].sessions[]] | length == 1 and .[0].state == \"running\"
    and .[0].epoch > $old_epoch and .[0].node != \"$node\""
}

# Kills the program's node. The program must recover under the new leader.
kill_its_node() {
  node=$(session .node) old_epoch=$(session .epoch)
  kill_hard "${pid_of[$node]}" || fail "cannot kill node $node"
  until_true elsewhere || fail "not placed anew: $(picture)"
  (($(session .epoch) > old_epoch)) || fail "an epoch that is not later"
}

# -- cases --------------------------------------------------------------------

kill_line() {
  case $1 in
    5)
      remember
      local began
      began=$(milliseconds)
      kill_hard "${pid_of[$leader]}" || fail "cannot kill the leader"
      await_takeover "$began"
      second_program
      kill_its_node
      ;;
  esac
}

freeze_line() {
  case $1 in
    5)
      remember
      local began
      began=$(milliseconds)
      kill -STOP "${pid_of[$leader]}"
      await_takeover "$began"
      second_program
      kill -CONT "${pid_of[$leader]}"
      until_true knows_that_it_stands_by "$leader" ||
        fail "the one that was frozen does not stand by"
      right_again || fail "it did damage: $(picture), before: $before"
      [[ $(status .manager.term) == $((term + 1)) ]] || fail "another term"
      kill_its_node
      ;;
  esac
}

held_line() {
  case $1 in
    5)
      local began
      order suspend "$(status '.vgpus[0].id')" --hold
      remember
      began=$(milliseconds)
      kill_hard "${pid_of[$leader]}" || fail "cannot kill the leader"
      await_takeover "$began"
      status_is '.vgpus[0].sessions[0] | .held and .state == "suspended"' ||
        fail "it is held no more: $(status '.vgpus[0]')"
      order resume "$(status '.vgpus[0].id')"
      ;;
  esac
}

cut_line() {
  case $1 in
    5)
      remember
      local began
      began=$(milliseconds)
      cut "${host_of[$leader]}"
      await_takeover "$began"
      second_program
      heal "${host_of[$leader]}"
      until_true knows_that_it_stands_by "$leader" ||
        fail "the one that was cut off does not stand by"
      right_again || fail "it did damage: $(picture), before: $before"
      [[ $(status .manager.term) == $((term + 1)) ]] || fail "another term"
      ;;
  esac
}

leave_line() {
  case $1 in
    5)
      remember
      local began
      began=$(milliseconds)
      kill -TERM "${pid_of[$leader]}"
      takeover_within=1000
      await_takeover "$began"
      wait "${pid_of[$leader]}" || fail "the leader ended with $?"
      second_program
      ;;
  esac
}

nobody_leads() {
  grep -q 'leads no more' "$work/out/manager-$leader"
}

# Counts the leader's log lines about an etcd that does not answer.
complaints() { grep -c 'etcd: ' "$work/out/manager-$leader" || true; }
complains() { (($(complaints) > complaints_before)); }

etcd_line() {
  case $1 in
    5)
      remember
      complaints_before=$(complaints)
      kill -STOP "${pid_of[etcd]}"
      # Half of the lease is left then.
      until_true complains || fail "$leader does not miss etcd"
      kill -CONT "${pid_of[etcd]}"
      second_program
      [[ $(status .manager.term) == "$term" ]] || fail "another term"
      kill -STOP "${pid_of[etcd]}"
      until_true nobody_leads || fail "$leader leads for ever"
      ! timeout 1 "$vgpu" status </dev/null >/dev/null 2>&1 ||
        fail "a manager leads without etcd"
      kill -CONT "${pid_of[etcd]}"
      until_true status_is ".manager.term > $term" || fail "no manager leads"
      until_true right_again ||
        fail "the status is not right again: $(picture), before: $before"
      second_program
      took=yes
      ;;
  esac
}

case_name=$2
declare -F "${case_name}_line" >/dev/null || { usage >&2; exit 2; }
on_line() { "${case_name}_line" "$@"; }
if [[ $case_name == cut ]]; then
  source "$(dirname "${BASH_SOURCE[0]}")/clusters/network.sh"
  use_hosts
fi
took=
undisturbed_heat undisturbed "${arguments[@]}"
start_all
follow_program disturbed "${as_program[@]}" "$vgpu" run -- "$heat" "${arguments[@]}"
[[ -n $took ]] || fail "heat ended before anything happened"
not_noticed
case $case_name in
  kill | freeze)
    has_event '.kind == "session-replayed"' || fail "no session-replayed"
    ;;
  held) has_event '.kind == "session-resumed"' || fail "no session-resumed" ;;
  *)
    ! has_event '.kind == "session-replaced"' || fail "its worker was replaced"
    ;;
esac
until_true status_is '[.vgpus[].sessions[]] == []' ||
  fail "the session is not closed"
stop_all
check_leaks
