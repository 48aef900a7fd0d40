# Four hosts, as network namespaces on one bridge: a manager, two nodes, and the
# program. Source it after `begin`. It skips the test if namespaces cannot be
# made. With E2E_KEYS=1 they have keys (keyed.sh).
# shellcheck shell=bash disable=SC2154 # lib.sh has the rest
((EUID == 0)) || skip "network namespaces need root; run the tests as root"
command -v ip >/dev/null || skip "no ip command (iproute2)"

# -- the network --------------------------------------------------------------

net=vgpu-e2e-$$
hosts=(manager a b program)
manager_endpoint=tcp://10.99.0.1:7070

# shellcheck disable=SC2317 # called at the end
after_end() {
  local host
  if declare -F end_links >/dev/null; then end_links || true; fi
  for host in "${hosts[@]}" switch; do
    ip netns delete "$net-$host" 2>/dev/null || true
  done
}

# Makes a link of normal speed. slow_links.sh makes slow ones.
make_link() { # HOST
  ip -n "$net-switch" link add "port-$1" type veth \
    peer name eth0 netns "$net-$1" 2>"$work/out/netns" ||
    skip "no veth pairs here: $(<"$work/out/netns")"
}

make_network() {
  local host number=0
  ip netns add "$net-switch" 2>"$work/out/netns" ||
    skip "no network namespaces here: $(<"$work/out/netns")"
  ip -n "$net-switch" link add bridge type bridge 2>"$work/out/netns" ||
    skip "no bridges here: $(<"$work/out/netns")"
  ip -n "$net-switch" link set bridge up
  for host in "${hosts[@]}"; do
    number=$((number + 1))
    ip netns add "$net-$host"
    ip -n "$net-$host" link set lo up
    make_link "$host"
    ip -n "$net-switch" link set "port-$host" master bridge up
    ip -n "$net-$host" address add "10.99.0.$number/24" dev eth0
    ip -n "$net-$host" link set eth0 up
  done
}

# Runs in a subshell with exec, so that the caller knows the command's process.
on() { # HOST COMMAND...
  local host=$1
  shift
  XDG_RUNTIME_DIR=$work/$host exec ip netns exec "$net-$host" "$@"
}

cut() { ip -n "$net-$1" link set eth0 down; }
heal() { ip -n "$net-$1" link set eth0 up; }

# -- the cluster --------------------------------------------------------------

declare -A pid_on=()
# An option of managers and nodes without keys.
without_keys=(--insecure-network)
! has_keys || without_keys=()

start_manager() {
  on manager env "$(keys_of manager)" "$build/bin/vgpu-manager" \
    --listen "$manager_endpoint" "${without_keys[@]}" \
    </dev/null >>"$work/out/manager" 2>&1 &
  pid_on[manager]=$!
}

start_node() { # NAME NUMBER
  ! has_keys || join_as_node "$1"
  on "$1" env "$(keys_of "$1")" "$build/bin/vgpu-node" --name "$1" \
    --manager "$manager_endpoint" --bind "10.99.0.$2" "${without_keys[@]}" \
    --device cpu </dev/null >>"$work/out/node-$1" 2>&1 &
  pid_on[$1]=$!
}

start_hosts() {
  local host
  for host in "${hosts[@]}"; do mkdir -m 700 "$work/$host"; done
  export VGPU_MANAGER=$manager_endpoint
  at_manager=(ip netns exec "$net-manager")
  ! has_keys || init_keys "$manager_endpoint"
  start_manager
  ! has_keys || join_as_admin
  start_node a 2
  start_node b 3
  until_true status_is '[.nodes[] | select(.state == "alive")] | length == 2' ||
    fail "the nodes do not join"
}

stop_hosts() {
  local host
  for host in a b manager; do
    kill -TERM "${pid_on[$host]}" 2>/dev/null || true
    wait "${pid_on[$host]}" 2>/dev/null || true
    find "$work/$host" -type s >"$work/out/sockets"
    [[ ! -s $work/out/sockets ]] ||
      fail "$host leaves sockets behind: $(<"$work/out/sockets")"
    rm -rf -- "${work:?}/$host"
  done
  rm -rf -- "${work:?}/keys"
  # The user's client keeps its place there until it ends.
  until_true nobody_left ||
    fail "still there: $(processes)"
  find "$work/program" -mindepth 1 >"$work/out/files"
  [[ ! -s $work/out/files ]] ||
    fail "the program's host is left with $(<"$work/out/files")"
  rmdir "$work/program"
}
