#!/usr/bin/env bash
# Kills the processes that serve a program, at moments that a seed chooses, and
# compares the program's output with that of an undisturbed run, byte for byte.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: chaos.sh BUILD KIND TRANSPORT [RUNS [FIRST-SEED [OPTION...]]]

TRANSPORT is mapped or forwarded, the options are those of `vgpu run`. A seed
chooses who is killed (the worker, the node, the client, which takes and keeps
snapshots, or the manager), at which line of the program's output, and what
else. KIND:

  deaths  perhaps a second one follows: at a later line, or as soon as
          something happens because of the first
  moves   the vGPU is just being migrated, suspended or drained off its node
  disks   the disk of snapshots and states, of the manager's store, or both, is
          full: since before, and for some lines after. Needs root, for a disk

With E2E_KEYS=1 the cluster has keys, and TRANSPORT is forwarded. Without
protection (OPTION `--protect none`) the program may also end with the
CUDA error cudaErrorDevicesUnavailable. One run of seed 7:

  tests/e2e/chaos.sh build/default deaths mapped 1 7
EOT
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 3)) || { usage >&2; exit 2; }
begin "$1"
kind=$2 transport=$3 runs=${4:-10} first_seed=${5:-1}
shift $(($# < 5 ? $# : 5))
options=("$@")
export VGPU_TRANSPORT=$transport
# The program pauses after each line, so that its worker can be killed twice.
arguments=(600 96 20 40)
lines_of_heat=30

unprotected() { [[ " ${options[*]} " == *" --protect none "* ]]; }

# -- killing ------------------------------------------------------------------

draw_victim() { draw_of "$1" worker node client manager; }

pid_of() { # VICTIM
  case $1 in
    worker) session 'select(.state == "running") | .worker_pid' ;;
    node)
      local name
      name=$(session 'select(.state == "running") | .node')
      [[ -z $name ]] || node_pid "$name"
      ;;
    client) session 'select(.connected) | .client | split("-") | last' ;;
    manager) status .manager.pid ;;
  esac
}

kill_victim() { # VICTIM
  local pid
  pid=$(pid_of "$1")
  [[ $pid =~ ^[1-9][0-9]*$ ]] && kill_hard "$pid" || return
  [[ $1 != manager ]] || until_true dead "$pid"
}

killed_or_too_late() { # VICTIM
  killed=
  if kill_victim "$1"; then killed=yes; else program_ended; fi
}

# The victim may not be running, because it is about to be restarted.
do_kill() { # VICTIM
  local killed
  until_true killed_or_too_late "$1" || fail "seed $seed ($plan): expected" \
    "a $1 to kill, saw the sessions $(status '[.vgpus[].sessions[]] | tojson')"
  [[ -n $killed ]] || {
    echo "no $1 to kill: the program has ended"
    return 0
  }
  kills=$((kills + 1))
  [[ $1 != manager ]] || restart_manager
}

# If the disk of its store is full, the manager waits for room.
restart_manager() {
  if [[ -n $full ]]; then
    manager_waits=yes
    return
  fi
  manager_waits=
  cluster_restart_manager >"$work/out/restart" 2>&1 ||
    echo "restart: $(<"$work/out/restart")"
}

# -- deaths -------------------------------------------------------------------

plan_deaths() {
  local number
  draw_victim first
  draw number $((lines_of_heat * 2 / 3))
  first_line=$((number + 1))
  second=none second_line=0
  draw number 5
  case $number in
    0 | 1)
      draw_victim second
      draw number $((lines_of_heat - first_line - 3))
      second_line=$((first_line + 1 + number))
      ;;
    2) draw_victim second ;;
  esac
  draw nodes 2
  nodes=$((nodes + 2))
  [[ $first != node || $second != node ]] || nodes=3
  kills_wanted=1
  [[ $second == none ]] || kills_wanted=2
  plan="$first at line $first_line"
  if ((second_line)); then
    plan+=", $second at line $second_line"
  elif [[ $second != none ]]; then
    plan+=", $second when that has consequences"
  fi
}

deaths_on_line() { # NUMBER
  local before
  if (($1 == first_line)); then
    before=$(last_event)
    do_kill "$first"
    if [[ $second != none ]] && ((!second_line)); then
      await_event ".number > $before" >/dev/null ||
        echo "killing the $first had no consequences"
      do_kill "$second"
    fi
  fi
  if (($1 == second_line)); then do_kill "$second"; fi
}

# -- moves --------------------------------------------------------------------

# Plans an order, which process dies while it is carried out, and a later order.
plan_moves() {
  local number
  draw_of order migrate suspend drain
  draw_of first worker node client manager target
  draw number $((lines_of_heat / 2))
  first_line=$((number + 1))
  draw number 8
  delay=$((number * number * 2)) # milliseconds; soon, most often
  draw number $((lines_of_heat - first_line - 3))
  second_line=$((first_line + 1 + number))
  nodes=4 kills_wanted=1
  plan="$order at line $first_line, $first ${delay} ms later,"
  plan+=" migrate at line $second_line"
}

# Prints the process of a node that does not serve the program. It may be the
# target of the move.
pid_of_target() {
  local serving
  serving=$(session .node)
  status "[.nodes[] | select(.state == \"alive\" and .name != \"$serving\")]
    | .[$((first_line % 3))].pid"
}

give_order() { # COMMAND ARGUMENT...
  timeout -k 5 "$patience" "$vgpu" "$@" </dev/null >"$work/out/move" 2>&1 &
  orders+=($!)
}

kill_during_order() {
  local victim what=1
  [[ $order != drain ]] || what=$(session .node)
  if [[ $first == target ]]; then
    victim=$(pid_of_target)
  else
    victim=$(pid_of "$first")
  fi
  give_order "$order" "$what"
  sleep "0.$(printf %03d "$delay")" # the moment; nothing is awaited
  # A worker may have ended by then.
  if kill_hard "$victim" || dead "$victim"; then kills=$((kills + 1)); fi
  [[ $first == manager ]] || return 0
  until_true dead "$victim" || true
  restart_manager
}

moves_on_line() { # NUMBER
  case $1 in
    "$first_line") kill_during_order ;;
    "$second_line") give_order migrate 1 ;;
  esac
}

# Ends the commands that ordered moves. They may have failed, or wait for a dead
# process.
end_orders() {
  local pid
  for pid in "${orders[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
  done
}

# -- disks --------------------------------------------------------------------

disk='' disk_bytes=$((16 << 20))

# shellcheck disable=SC2317 # called at the end
after_end() {
  [[ -n $disk ]] || return
  umount -l "$disk" 2>/dev/null || true
  rmdir "$disk"
}

make_disk() {
  ((EUID == 0)) || skip "a small disk needs root; run the tests as root"
  disk=$(mktemp -d /tmp/vgpu-disk.XXXXXX)
  mount -t tmpfs -o "size=$disk_bytes,mode=700" vgpu-e2e "$disk" \
    2>"$work/out/mount" || skip "no disk can be made: $(<"$work/out/mount")"
}

plan_disks() {
  local number
  draw_of what states store both
  draw_of first worker node client manager
  draw number $((lines_of_heat / 3))
  full_line=$((number + 1))
  draw number 6
  first_line=$((full_line + number))
  draw number 10
  free_line=$((first_line + 1 + number))
  nodes=2 kills_wanted=1
  plan="disk of $what full at line $full_line, $first at line $first_line,"
  plan+=" room at line $free_line"
  unset VGPU_STATE_DIR VGPU_STATE_MEMORY
  [[ $what == store ]] || export VGPU_STATE_DIR=$disk VGPU_STATE_MEMORY=1
  [[ $what == states ]] || run_on=$disk
}

disks_on_line() { # NUMBER
  if (($1 == full_line)); then
    # This fills all the free space.
    head -c "$disk_bytes" /dev/zero >"$disk/filler" 2>/dev/null || true
    [[ $what == states ]] || full=yes
  fi
  if (($1 == first_line)); then do_kill "$first"; fi
  if (($1 == free_line)); then
    rm -- "$disk/filler"
    full=
    [[ -z $manager_waits ]] || restart_manager
  fi
}

# Checks that no state and no snapshot is left when the program has ended.
disk_is_empty() {
  (($(df --output=used -B1 "$disk" | tail -n 1) == 0))
}

# -- a run --------------------------------------------------------------------

on_line() { "${kind}_on_line" "$@"; }

# Checks that the program's output is right up to its end with a CUDA error.
ended_unprotected() {
  ((program_status == 0)) && { is_undisturbed; return; }
  grep -q cudaErrorDevicesUnavailable "$work/out/disturbed.err" || {
    wrong "expected cudaErrorDevicesUnavailable, saw the status" \
      "$program_status: $(<"$work/out/disturbed.err")"
    return
  }
  cmp -s "$work/out/disturbed" \
    <(head -n "$(wc -l <"$work/out/disturbed")" "$work/out/undisturbed") ||
    wrong "expected the first lines of the undisturbed output, saw others:" \
      "$(tail -n 3 "$work/out/disturbed")"
}

check_replayed() {
  [[ $kind == deaths && ($first == worker || $first == node) ]] || return 0
  ! unprotected || return 0
  has_event '.kind == "session-replayed"' ||
    wrong "the $first was killed: expected an event session-replayed, saw" \
      "$("$vgpu" events --json </dev/null | jq -r .kind | paste -sd ' ')"
}

one_run() { # SEED
  local began ended=is_undisturbed
  begin_plan "$1"
  # shellcheck disable=SC2034 # cluster_up does
  full='' manager_waits='' run_on=$work orders=()
  "plan_$kind"
  plan+=", of $nodes nodes"
  began=$(milliseconds)
  kills=0
  cluster_up --nodes "$nodes"
  follow_program disturbed "$vgpu" run "${options[@]}" -- \
    "$heat" "${arguments[@]}"
  # The program may have ended early.
  [[ ! -e $disk/filler ]] || disks_on_line "$free_line"
  end_orders
  if unprotected; then ended=ended_unprotected; fi
  "$ended" || return
  until_true status_is '[.vgpus[].sessions[]] == []' || {
    wrong "expected no session, saw $(status '[.vgpus[].sessions[]]')"
    return
  }
  # What the client told about its session is there when it is closed.
  check_replayed || return
  cluster_down
  check_leaks
  [[ -z $disk ]] || until_true disk_is_empty || {
    wrong "expected an empty disk, saw $(ls -lR "$disk")"
    return
  }
  ((kills == kills_wanted)) || unprotected || {
    wrong "expected $kills_wanted kills, saw $kills: the program ended before"
    return
  }
  say "seed $1: $plan: $(($(milliseconds) - began)) ms"
}

case $kind in
  deaths | moves) ;;
  disks) make_disk ;;
  *) usage >&2; exit 2 ;;
esac
undisturbed_heat undisturbed "${arguments[@]}"
((lines_of_program == lines_of_heat + 1)) ||
  fail "expected $((lines_of_heat + 1)) lines of heat, saw $lines_of_program"
check_leaks
for ((seed = first_seed; seed < first_seed + runs; ++seed)); do
  one_run "$seed" || {
    echo "again with: ${BASH_SOURCE[0]} $build $kind $transport 1 $seed" \
      "${options[*]}"
    fail "seed $seed ($plan): $why"
  }
done
unprotected && how=', or the error that is told without protection' || how=
say "$runs runs, all bit-identical$how, nothing left behind"
