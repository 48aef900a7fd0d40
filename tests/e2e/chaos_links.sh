#!/usr/bin/env bash
# Cuts and delays links between hosts, at moments that a seed chooses, and
# compares a program's output with that of an undisturbed run, byte for byte.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: chaos_links.sh BUILD [RUNS [FIRST-SEED [OPTION...]]]

A seed chooses the link (of the node that serves the program, of the other node,
of the program's host, or of the manager's), for how long something is done to
it, and at which line of the program's output; besides, whether the vGPU is just
being migrated, and whether the worker or the client is killed meanwhile. Of four
seeds in a row one cuts the link, one cuts it again and again for a moment, one
delays it for less than a lease's term (400 ms), and one for about as long or
longer. The options are those of `vgpu run`. Needs root, for hosts. One run of
seed 7:

  tests/e2e/chaos_links.sh build/default 1 7
EOT
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 1)) || { usage >&2; exit 2; }
begin "$1"
source "$(dirname "${BASH_SOURCE[0]}")/clusters/network.sh"
source "$(dirname "${BASH_SOURCE[0]}")/clusters/slow_links.sh"
runs=${2:-10} first_seed=${3:-1}
shift $(($# < 3 ? $# : 3))
options=("$@")
arguments=(600 96 20 40)
lines_of_heat=30

# -- the plan -----------------------------------------------------------------

make_plan() { # SEED
  local number
  begin_plan "$1"
  draw_of where serving serving other program manager
  draw number $((lines_of_heat / 2))
  at_line=$((number + 1))
  # The manager counts a client that is silent for 5 s as gone.
  draw number 40
  milliseconds_long=$((50 + number * number)) # up to 1.6 s, more often short
  draw number 15
  case $(($1 % 4)) in
    0) act=delay delay=$((300 + number * 40)) ;; # there and back takes twice that
    1) act=cut delay=0 ;;
    2) act=delay delay=$((20 + number * 10)) ;;
    3) act=stutter delay=$((20 + number * 10)) ;;
  esac
  draw_of order none none migrate
  draw_of victim none none worker client
  plan="link of $where: $act at line $at_line for $milliseconds_long ms"
  [[ $act == cut ]] || plan+=", of $delay ms"
  [[ $order == none ]] || plan+=", after an order to $order"
  [[ $victim == none ]] || plan+=", $victim killed meanwhile"
}

# -- what happens -------------------------------------------------------------

# Makes frames arrive late, so that senders repeat some of them.
stutter() { # HOST
  local until=$(($(milliseconds) + milliseconds_long))
  while (($(milliseconds) < until)); do
    cut "$1"
    pause "$delay"
    heal "$1"
    pause "$delay"
  done
}

# Waits for the duration of a disturbance, and for no condition.
pause() { # MILLISECONDS
  sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"
}

host_of() {
  case $where in
    serving) session .node ;;
    other) if [[ $(session .node) == a ]]; then echo b; else echo a; fi ;;
    *) echo "$where" ;;
  esac
}

pid_of_victim() {
  case $victim in
    worker) session .worker_pid ;;
    client) client_of_session ;;
  esac
}

on_line() { # NUMBER
  (($1 == at_line)) || return 0
  local host pid=
  host=$(host_of)
  pid=$(pid_of_victim)
  if [[ $order != none ]]; then
    timeout -k 5 "$patience" "${at_manager[@]}" "$vgpu" "$order" 1 </dev/null \
      >"$work/out/move" 2>&1 &
    orders+=($!)
  fi
  case $act in
    cut) cut "$host" ;;
    delay) delay_link "$host" "$delay" ;;
  esac
  if [[ -n $pid ]]; then
    pause 50
    kill_hard "$pid" || dead "$pid" || echo "cannot kill the $victim"
  fi
  case $act in
    cut) pause "$milliseconds_long" && heal "$host" ;;
    stutter) stutter "$host" ;;
    delay) pause "$milliseconds_long" && speed_link "$host" ;;
  esac
  happened=yes
}

# -- a run --------------------------------------------------------------------

one_run() { # SEED
  local began pid
  make_plan "$1"
  began=$(milliseconds)
  happened='' orders=()
  start_hosts
  follow_program disturbed env "XDG_RUNTIME_DIR=$work/program" \
    ip netns exec "$net-program" "$vgpu" run "${options[@]}" -- \
    "$heat" "${arguments[@]}"
  for pid in "${orders[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
  done
  is_undisturbed || return
  [[ -n $happened ]] || {
    wrong "expected a line $at_line of heat, saw fewer"
    return
  }
  until_true status_is '[.nodes[].state] == ["alive", "alive"]
    and [.vgpus[].sessions[]] == []' || {
    wrong "expected both nodes alive and no session, saw $(status .)"
    return
  }
  until_true no_worker || {
    wrong "expected no worker, saw the processes $(daemons vgpu-worker)"
    return
  }
  stop_hosts
  check_leaks
  say "seed $1: $plan: $(($(milliseconds) - began)) ms"
}

no_worker() { [[ -z $(daemons vgpu-worker) ]]; }

undisturbed_heat undisturbed "${arguments[@]}"
check_leaks
make_network
for ((seed = first_seed; seed < first_seed + runs; ++seed)); do
  one_run "$seed" || {
    echo "again with: ${BASH_SOURCE[0]} $build 1 $seed ${options[*]}"
    fail "seed $seed ($plan): $why"
  }
done
say "$runs runs, all bit-identical, nothing left behind"
