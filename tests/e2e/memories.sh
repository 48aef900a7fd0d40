#!/usr/bin/env bash
# A program loses its worker and then its node, and must print what it prints
# undisturbed, byte for byte. The cases are:
#   textures    data in arrays; values of textures and surfaces in device memory
#   unified     managed memory, which host and kernels write in turn, and memory
#               that the program maps by itself
#   flags       words of memory that order work, and are reset when seen
#   conditions  kernels that choose what graphs do; the program is also suspended
#   waits       streams that only the program's waiting keeps in order
#   placed_host  memory of the host that the program maps by itself; the program
#               is also suspended
#   zero_copy   pinned memory that kernels and program write (forwarded only:
#               where the worker maps it, its former contents cannot be restored)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { echo "usage: memories.sh BUILD textures|unified|flags|conditions|waits|placed_host|zero_copy mapped|forwarded"; }
begin_case 3 "$@"
case $2 in
  textures) program=("$guest" textures) ;;
  unified | flags | conditions | waits | placed_host | zero_copy) program=("$(dirname "$guest")/$2") ;;
  *) usage >&2; exit 2 ;;
esac
what=$2
rounds=12 pause=50
kills=0

kill_one() { # PID
  [[ $1 =~ ^[1-9][0-9]*$ ]] && kill_hard "$1" && kills=$((kills + 1))
}

kill_worker() {
  kill_one "$(session 'select(.state == "running") | .worker_pid')"
}

kill_node() {
  local name
  name=$(session 'select(.state == "running") | .node')
  [[ -n $name ]] && kill_one "$(node_pid "$name")"
}

# Suspends the session, once another worker serves it.
suspend_it() {
  until_true status_is '.vgpus[0].sessions[0]
    | .state == "running" and .epoch == 2' ||
    fail "no other worker serves it: $(status '.vgpus[0].sessions[0]')"
  order suspend 1
}

on_line() { # NUMBER LINE
  case $1 in
    3) until_true kill_worker ;;
    5) [[ $what != conditions && $what != placed_host ]] || suspend_it ;;
    8) until_true kill_node ;;
  esac
}

[[ $what != waits ]] || export VGPU_GPUS=2
[[ $what != zero_copy ]] || takes_turns=true
undisturbed undisturbed "${program[@]}" "$rounds" 0
cluster_up --nodes 2 --gpus-per-node 2
follow_program disturbed "$vgpu" run -- "${program[@]}" "$rounds" "$pause"
((program_status == 0)) ||
  fail "it ended with $program_status: $(<"$work/out/disturbed.err")"
diff "$work/out/undisturbed" "$work/out/disturbed" >&2 || true
same undisturbed disturbed || fail "it printed something else"
((kills == 2)) || fail "only $kills kills"
has_event '.kind == "session-replayed"' || fail "nothing was replayed"
[[ $what != unified ]] || has_event '.kind == "managed-memory" and
    (.text | test("touches of managed memory are served by "))' ||
  fail "no event tells who serves touches of managed memory"
cluster_down
check_leaks
say "$rounds rounds, bit-identical, with a worker and a node lost"
