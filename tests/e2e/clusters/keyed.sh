# Clusters with keys, on one host or on several. With E2E_KEYS=1 those of lib.sh,
# network.sh and leaders.sh have keys: the manager's, one of each node, and an
# admin's, with which the test's commands and programs run. lib.sh sources it.
# shellcheck shell=bash disable=SC2154 # lib.sh has the rest

has_keys() { [[ -n ${E2E_KEYS-} ]]; }

# Prints a setting for `env`: the keys of `manager`, `admin`, or a node. Where the
# cluster has no keys, their folder does not exist.
keys_of() { echo "VGPU_KEYS=$work/keys/$1"; } # WHO

order_as() { # WHO COMMAND ARGUMENT...
  local -x VGPU_KEYS=$work/keys/$1
  shift
  order "$@"
}

# Makes the manager's keys, anew. Several managers share the file.
init_keys() { # ENDPOINT[,ENDPOINT...]
  rm -rf -- "$work/keys"
  mkdir -m 700 "$work/keys"
  order_as manager keys init "$1"
}

# Prints a token that one may join with. It is made where the manager's keys are,
# and used where a manager can be reached.
token() { # KIND
  order_as manager token "$1"
  cat "$work/out/order"
}

join_as_admin() { order login "$(token admin)" --name admin; }

# Without effect where the node has joined before.
join_as_node() { # NAME
  [[ -e $work/keys/$1/node.json ]] ||
    order_as "$1" node join "$(token node)" --name "$1"
}

# -- on one host ---------------------------------------------------------------

declare -A keyed_pid=()
keyed_options=() # the manager's

start_keyed_manager() {
  start_listening "$run_dir/manager.log" env "$(keys_of manager)" \
    "${to_start[@]}" "$build/bin/vgpu-manager" --listen "$VGPU_MANAGER" \
    --run-dir "$run_dir" "${keyed_options[@]}" || return
  keyed_pid[manager]=$manager_pid
}

start_keyed_node() { # NAME
  join_as_node "$1"
  env "$(keys_of "$1")" "${to_start[@]}" "$build/bin/vgpu-node" --name "$1" \
    --manager "$VGPU_MANAGER" --bind 127.0.0.1 \
    --device "${E2E_DEVICE:-cpu}" --run-dir "$run_dir" \
    </dev/null 2>"$run_dir/node-$1.log" &
  keyed_pid[$1]=$!
}

nodes_alive() { # HOW-MANY
  status_is "[.nodes[] | select(.state == \"alive\")] | length == $1"
}

# Does what cluster_up does.
keyed_up() { # [--nodes N] [OPTION-OF-THE-MANAGER...]
  local nodes=1 i names=abcdefgh
  [[ ${1-} != --nodes ]] || { nodes=$2 && shift 2; }
  run_dir=${run_on:-$work}/run
  mkdir -m 700 "$run_dir"
  keyed_options=("$@") keyed_pid=()
  for _ in {1..20}; do
    export VGPU_MANAGER=tcp://127.0.0.1:$(some_port)
    init_keys "$VGPU_MANAGER"
    ! start_keyed_manager || break
  done
  [[ -n ${keyed_pid[manager]-} ]] ||
    fail "the manager does not start: $(<"$run_dir/manager.log")"
  join_as_admin
  for ((i = 0; i < nodes; ++i)); do start_keyed_node "${names:i:1}"; done
  until_true nodes_alive "$nodes" || fail "the nodes do not join"
}

keyed_restart_manager() {
  end_hard "${keyed_pid[manager]}"
  start_keyed_manager
}

# Nodes end before their manager. A process that the test killed has no status.
keyed_down() {
  local name pid
  for name in "${!keyed_pid[@]}"; do
    [[ $name == manager ]] || end_keyed "$name"
  done
  end_keyed manager
  rm -rf -- "$run_dir" "$work/keys"
  unset VGPU_MANAGER
}

end_keyed() { # NAME
  local pid=${keyed_pid[$1]}
  if alive "$pid" && kill -TERM "$pid" 2>/dev/null; then
    wait "$pid" || fail "$1 ended with $?"
  fi
  wait "$pid" 2>/dev/null || true
}
