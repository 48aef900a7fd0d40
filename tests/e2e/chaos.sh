#!/usr/bin/env bash
# Kills what serves a program, at moments that a seed chooses, and compares
# what the program prints with an undisturbed run, byte for byte.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: chaos.sh BUILD TRANSPORT [RUNS [FIRST-SEED [OPTION...]]]

TRANSPORT is mapped or forwarded. A seed chooses whom to kill (the worker, the
node or the client), at which line of the program's output, and whether a
second one follows: at a later line, or as soon as something happens because
of the first. The options are those of `vgpu run`. One run of seed 7:

  tests/e2e/chaos.sh build/default mapped 1 7
EOT
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 2)) || { usage >&2; exit 2; }
begin "$1"
transport=$2 runs=${3:-10} first_seed=${4:-1}
shift $(($# < 4 ? $# : 4))
options=("$@")
export VGPU_TRANSPORT=$transport
# It pauses after each line, long enough to be killed twice before its end.
arguments=(600 96 20 40)
lines_of_heat=30

# -- the plan -----------------------------------------------------------------

random_state=0
draw() { # NAME BELOW: the next number of the seed's sequence
  local -n into=$1
  random_state=$(((random_state * 1103515245 + 12345) & 0x7fffffff))
  # shellcheck disable=SC2034 # the name is the caller's
  into=$(((random_state >> 16) % $2))
}

draw_victim() { # NAME
  local kinds=(worker node client) number
  local -n kind=$1
  draw number 3
  # shellcheck disable=SC2034
  kind=${kinds[number]}
}

make_plan() { # SEED
  local number
  random_state=$(($1 * 7919))
  draw number 1000 # the first numbers of small seeds are alike
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
  plan="$first at line $first_line"
  if ((second_line)); then
    plan+=", $second at line $second_line"
  elif [[ $second != none ]]; then
    plan+=", $second when that has consequences"
  fi
  plan+=", of $nodes nodes"
}

# -- killing ------------------------------------------------------------------

pid_of() { # VICTIM
  case $1 in
    worker) session 'select(.state == "running") | .worker_pid' ;;
    node)
      local name
      name=$(session 'select(.state == "running") | .node')
      [[ -z $name ]] || node_pid "$name"
      ;;
    client) session 'select(.connected) | .client | split("-") | last' ;;
  esac
}

kill_victim() { # VICTIM
  local pid
  pid=$(pid_of "$1")
  [[ $pid =~ ^[1-9][0-9]*$ ]] && kill_hard "$pid"
}

# Between two lives of it there may be nobody to kill.
do_kill() { # VICTIM
  if until_true 5 kill_victim "$1"; then
    kills=$((kills + 1))
  else
    echo "no $1 to kill: $(status '[.vgpus[].sessions[]]')"
  fi
}

on_line() { # NUMBER LINE
  local before
  if (($1 == first_line)); then
    before=$(last_event)
    do_kill "$first"
    if [[ $second != none ]] && ((!second_line)); then
      await_event ".number > $before" 10 >/dev/null ||
        echo "killing the $first had no consequences"
      do_kill "$second"
    fi
  fi
  if (($1 == second_line)); then do_kill "$second"; fi
}

# -- a run --------------------------------------------------------------------

one_run() { # SEED
  local began
  make_plan "$1"
  began=$(milliseconds)
  kills=0 kills_wanted=1
  [[ $second == none ]] || kills_wanted=2
  cluster_up --nodes "$nodes"
  follow_program disturbed 30 "$vgpu" run "${options[@]}" -- \
    "$heat" "${arguments[@]}"
  ((program_status == 0)) || {
    cat "$work/out/disturbed.err" >&2
    return 1
  }
  same undisturbed disturbed || return
  [[ ! -s $work/out/disturbed.err ]] || {
    echo "it wrote to stderr: $(<"$work/out/disturbed.err")" >&2
    return 1
  }
  ((kills == kills_wanted)) || {
    echo "only $kills kills" >&2
    return 1
  }
  if [[ $first != client ]]; then
    has_event '.kind == "session-replayed"' || {
      echo "the $first was killed, and nothing replayed" >&2
      return 1
    }
  fi
  until_true 5 status_is '[.vgpus[].sessions[]] == []' || {
    echo "the session is not closed" >&2
    return 1
  }
  cluster_down
  check_leaks
  say "seed $1: $plan: $(($(milliseconds) - began)) ms"
}

undisturbed_heat undisturbed "${arguments[@]}"
(($(wc -l <"$work/out/undisturbed") == lines_of_heat + 1)) ||
  fail "heat prints other lines than expected"
check_leaks
for ((seed = first_seed; seed < first_seed + runs; ++seed)); do
  one_run "$seed" || fail "seed $seed ($plan); again with:" \
    "${BASH_SOURCE[0]} $build $transport 1 $seed ${options[*]}"
done
say "$runs runs, all bit-identical, nothing left behind"
