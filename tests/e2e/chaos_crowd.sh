#!/usr/bin/env bash
# Kills processes of a cluster on which many programs run, again and again, and
# compares what each program does with what it does undisturbed, byte for byte.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: chaos_crowd.sh BUILD [--kills N] [--seed N] [--sessions N] [--nodes N]
                      [--only REGEX] [--programs DIR]

So many programs (6) run at a time on a cluster of so many nodes (3): heat, a
program with objects of every kind, and the deterministic programs of tests/cuda
whose names match (those that need no device for themselves). A seed chooses
each next program and whether its log is mapped or its calls are forwarded; who
is killed next: a worker, most often, a node, a client or the manager; and when.
A node and the manager are started again. After so many kills (20) the programs
end, and nothing may be left. --programs says where those of tests/cuda are
(BUILD/tests/cuda). A long run:

  tests/e2e/chaos_crowd.sh build/default --kills 1000 --seed 7
EOT
}

case "${1--h}" in
  -h | --help) usage; exit 0 ;;
esac
folder=$1 kills_wanted=20 seed=$RANDOM sessions=6 nodes=3 programs=
only='^(algorithms|graphs|kernels|streams|textures)/|/(bytes|managed|virtual_memory|volume|pitched_copy|async_alloc|device_globals|templates|launch_ex)$'
shift
while (($#)); do
  (($# >= 2)) || { usage >&2; exit 2; }
  case $1 in
    --kills) kills_wanted=$2 ;;
    --seed) seed=$2 ;;
    --sessions) sessions=$2 ;;
    --nodes) nodes=$2 ;;
    --only) only=$2 ;;
    --programs) programs=$2 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done
for number in "$kills_wanted" "$seed" "$sessions" "$nodes"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
done
((nodes >= 2)) || { usage >&2; exit 2; }
begin "$folder"
programs=${programs:-$build/tests/cuda}
mkdir "$work/tmp/files" "$work/out/slots" "$work/out/known"
enough=$work/tmp/enough

# -- programs -----------------------------------------------------------------

# Prints the programs of tests/cuda that may be killed, with each transport.
list_programs() {
  local program transport
  while read -r program; do
    [[ $program =~ $only && $varying != *" $program "* ]] || continue
    [[ -x $programs/${program##*/} ]] || fail "no $programs/${program##*/}"
    for transport in mapped forwarded; do
      is_left_out "$program/worker/$transport" ||
        is_left_out "$program/node/$transport" || echo "$program $transport"
    done
  done <"$build/tests/cuda/programs.txt"
}

# Sets `command`, as an array.
find_command() { # PROGRAM
  case $1 in
    heat) command=("$heat" 600 96 20 20) ;;
    mover) command=("$build/tests/e2e/mover" loose 24 30) ;;
    *) command=("$programs/${1##*/}") ;;
  esac
}

# Runs a program, and keeps what it writes and its status.
run_program() { # FILE
  local status=0
  timeout -k 5 "$life" "$vgpu" run "${@:2}" -- env TMPDIR="$work/tmp/files" \
    "${command[@]}" </dev/null >"$1" 2>"$1.err" || status=$?
  echo "$status" >"$1.status"
}

# Tells whether the program began: `vgpu run` begins none while it finds no
# manager.
had_manager() { # FILE
  [[ $(<"$1.status") != 3 ]] || ! grep -q '^vgpu run: no manager' "$1.err"
}

# Finds out what a program does undisturbed, in a cluster of its own.
know_undisturbed() { # PROGRAM TRANSPORT
  known=$work/out/known/${1##*/}-$2
  (
    flock 9
    [[ -e $known.status ]] || (
      unset VGPU_MANAGER
      run_program "$known" --device "${E2E_DEVICE:-cpu}"
    )
  ) 9>"$known.lock"
}

# Says in `why` how the two runs differ, if they do.
is_same() { # FILE FILE
  local kind
  for kind in .status '' .err; do
    cmp -s "$1$kind" "$2$kind" || {
      wrong "another ${kind:-output}: $(diff "$1$kind" "$2$kind" |
        sed -n 1,4p | tr '\n' ' ')"
      return
    }
  done
}

# Runs one program after the other until there were enough kills.
run_slot() { # NUMBER
  local slot=$work/out/slots/$1 program transport number known command
  begin_plan $((seed + 7907 * $1))
  until [[ -e $enough ]]; do
    draw number 4
    case $number in
      0) program=heat; draw_of transport mapped forwarded ;;
      1) program=mover; draw_of transport mapped forwarded ;;
      *)
        draw number ${#pool[@]}
        read -r program transport <<<"${pool[number]}"
        ;;
    esac
    export VGPU_TRANSPORT=$transport
    find_command "$program"
    know_undisturbed "$program" "$transport"
    echo "$program $transport" >>"$slot.runs"
    until run_program "$slot" && had_manager "$slot"; do :; done
    is_same "$known" "$slot" || {
      echo "$program $transport: $why" >"$slot.wrong"
      : >"$enough"
      return 0
    }
  done
}

# -- killing ------------------------------------------------------------------

declare -A count=([worker]=0 [node]=0 [client]=0 [manager]=0)
declare -A own_node=()

# Prints the processes of this kind that may be killed.
pids_of() { # KIND
  case $1 in
    worker)
      status '[.vgpus[].sessions[] | select(.state == "running")]
        | sort_by(.id)[] | .worker_pid'
      ;;
    node)
      # The others must be there, or the programs would wait for nothing else.
      status "[.nodes[] | select(.state == \"alive\")] | sort_by(.name)
        | if length == $nodes then .[] | .pid else empty end"
      ;;
    client)
      status '[.vgpus[].sessions[] | select(.connected) | .client
        | split("-") | last] | unique[]'
      ;;
    manager) status .manager.pid ;;
  esac
}

# In a process group of its own, as `vgpu up` does: what else runs in this
# script's must not take its time.
restart_node() { # NAME
  setsid "$build/bin/vgpu-node" --name "$1" --manager "$VGPU_MANAGER" \
    --device "${E2E_DEVICE:-cpu}" --run-dir "$run_dir" </dev/null >>"$work/out/node-$1" 2>&1 &
  own_node[$1]=$!
}

# A manager that has just died may still have its socket.
manager_is_back() {
  "$vgpu" restart-manager --run-dir "$run_dir" </dev/null \
    >"$work/out/restart" 2>&1
}

# Kills one process of this kind, if there is one.
kill_one() { # KIND
  local pids number name
  mapfile -t pids < <(pids_of "$1")
  ((${#pids[@]})) || return
  draw number ${#pids[@]}
  [[ $1 != node ]] ||
    name=$(status ".nodes[] | select(.pid == ${pids[number]}) | .name")
  kill_hard "${pids[number]}" || return
  count[$1]=$((count[$1] + 1)) kills=$((kills + 1))
  case $1 in
    node)
      until_true dead "${pids[number]}"
      # The shell tells of its killed children, which is of no interest.
      [[ -z ${own_node[$name]-} ]] || wait "${own_node[$name]}" 2>/dev/null ||
        true
      restart_node "$name"
      ;;
    manager)
      until_true dead "${pids[number]}"
      until_true manager_is_back ||
        fail "seed $seed: no manager after kill $kills: $(<"$work/out/restart")"
      ;;
  esac
}

one_was_killed() {
  [[ -e $enough ]] || kill_one "$1"
}

kill_many() {
  local kind pause
  begin_plan "$seed"
  while ((kills < kills_wanted)) && [[ ! -e $enough ]]; do
    draw_of kind worker worker worker worker worker worker node client manager
    draw pause 500
    sleep "0.$(printf %03d "$pause")" # the moment; nothing is awaited
    until_true one_was_killed "$kind" ||
      fail "seed $seed: no $kind to kill after kill $kills"
    ((kills % 100)) || say "$kills kills, $(runs) programs begun"
  done
  : >"$enough"
}

runs() { cat "$work"/out/slots/*.runs 2>/dev/null | wc -l; }

stop_own_nodes() {
  local name
  for name in "${!own_node[@]}"; do
    kill -TERM "${own_node[$name]}" 2>/dev/null || continue
    wait "${own_node[$name]}" || fail "node $name ended with $?"
  done
}

kills=0
mapfile -t pool < <(list_programs)
((${#pool[@]})) || fail "no program matches '$only'"
cluster_up --nodes "$nodes"
slots=()
for ((slot = 1; slot <= sessions; ++slot)); do
  run_slot "$slot" &
  slots+=($!)
done
kill_many
for pid in "${slots[@]}"; do
  wait "$pid" || fail "seed $seed: a slot of programs ended with $?"
done
if compgen -G "$work/out/slots/*.wrong" >/dev/null; then
  fail "seed $seed, after $kills kills: $(cat "$work"/out/slots/*.wrong)"
fi
until_true status_is '[.vgpus[].sessions[]] == []' ||
  fail "expected no session, saw $(status '[.vgpus[].sessions[]]')"
! has_event '.kind == "replay-differs" or .kind == "session-lost"' ||
  fail "seed $seed: $("$vgpu" events --json </dev/null |
    jq -c 'select(.kind == "replay-differs" or .kind == "session-lost")')"
stop_own_nodes
cluster_down
rm -rf -- "$work/tmp/files" "$enough"
check_leaks
say "seed $seed: $kills kills (${count[worker]} workers, ${count[node]} nodes," \
  "${count[client]} clients, ${count[manager]} managers) during $(runs)" \
  "programs, all bit-identical, nothing left behind"
