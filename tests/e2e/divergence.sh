#!/usr/bin/env bash
# Kills the worker of a program that adds floats atomically, so that a replay
# gives other results, and checks that each setting of --on-divergence does what
# docs/using/high-availability.md says.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: divergence.sh BUILD SETTING TRANSPORT [DEATHS [SEED]]

SETTING is continue, error or snapshot, and TRANSPORT mapped or forwarded. The
worker dies so many times (20), each time at a round of the program that the
seed (1) chooses.

  continue  Each time that the program finds its device with other results than
            those that it has read, an event has told so. It ends.
  error     The program gets cudaErrorDevicesUnavailable, or the replay was the
            same. It begins anew for each death.
  snapshot  Its device has what it has read, always.
EOT
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 3 && $# <= 5)) || { usage >&2; exit 2; }
setting=$2 deaths=${4:-20} seed=${5:-1}
[[ $deaths =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
begin "$1"
export VGPU_TRANSPORT=$3
pause=10

# Runs the program and kills its worker at these rounds. Unless a snapshot has to
# cover what it reads, there is none, and a replay repeats all reads.
run_killed() { # ROUNDS LINES
  local to_kill=" $2 " options=(--on-divergence "$setting")
  [[ $setting == snapshot ]] || options+=(--protect-cost 0)
  on_line() {
    [[ $to_kill == *" $1 "* ]] || return 0
    until_true kill_its_worker || fail "no worker to kill in round $1"
    kills=$((kills + 1))
  }
  lines_of_program=$1
  follow_program disturbed "$vgpu" run "${options[@]}" -- "$guest" digest "$1" \
    "$pause"
  sessions=$((sessions + 1))
}

count_of() { # JQ-FILTER
  "$vgpu" events --json </dev/null | jq -s "map(select($1)) | length"
}

printed_rounds() { # HOW-MANY
  (($(grep -c '^round' "$work/out/disturbed") == $1)) ||
    fail "expected $1 rounds, saw $(wc -l <"$work/out/disturbed")"
}

# What the program has read stays read, and it goes on with what its device has.
case_continue() {
  local rounds=$((2 * deaths + 6)) diverged told
  run_killed "$rounds" "$(some_of "$deaths" $((rounds - 4)) "$seed")"
  diverged=$(grep -c diverged "$work/out/disturbed" || true)
  ((program_status == (diverged ? 7 : 0))) ||
    fail "it ended with $program_status: $(<"$work/out/disturbed.err")"
  printed_rounds "$rounds"
  told=$(count_of '.kind == "replay-differs"')
  ((diverged <= told)) ||
    fail "expected an event for each of $diverged differences, saw $told"
  (($(nproc) == 1 || told)) || fail "expected replays that differ, saw none"
  (($(count_of '.kind == "session-lost"') == 0)) || fail "it was lost"
  say "$deaths deaths, $told replays differed, $diverged times seen"
}

# Nothing is pretended: an error, or what was read.
case_error() {
  local line lost=0 rounds=8 number=$seed i
  for ((i = 0; i < deaths; ++i, ++number)); do
    line=$(some_of 1 $((rounds - 4)) "$number")
    run_killed "$rounds" "$((line + 2))"
    ! grep -q diverged "$work/out/disturbed" || fail "it went on in death $i"
    if ((program_status == 0)); then
      printed_rounds "$rounds"
      continue
    fi
    ((program_status == 9)) || fail "it ended with $program_status"
    # The one name is the runtime's and the other the driver's.
    grep -Eq 'cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE' \
      "$work/out/disturbed.err" ||
      fail "it got another error: $(<"$work/out/disturbed.err")"
    lost=$((lost + 1))
    for kind in replay-differs session-lost; do
      await_event ".kind == \"$kind\" and .vgpu == $sessions" >/dev/null ||
        fail "no $kind of death $i"
    done
  done
  (($(nproc) == 1 || lost)) || fail "expected errors, saw none"
  say "$deaths deaths, $lost errors, $((deaths - lost)) replays were the same"
}

case_snapshot() {
  local rounds=$((2 * deaths + 6))
  run_killed "$rounds" "$(some_of "$deaths" $((rounds - 4)) "$seed")"
  ((program_status == 0)) ||
    fail "it ended with $program_status: $(tail -n 3 "$work/out/disturbed")"
  printed_rounds "$rounds"
  (($(count_of '.kind == "replay-differs"') == 0)) || fail "a replay differs"
  (($(count_of '.kind == "session-lost"') == 0)) || fail "it was lost"
  say "$deaths deaths, $(count_of '.kind == "session-replayed"') replays," \
    "nothing that was read differed"
}

declare -F "case_$setting" >/dev/null || { usage >&2; exit 2; }
sessions=0 kills=0
cluster_up --nodes 1
"case_$setting"
((kills == deaths)) || fail "expected $deaths deaths, saw $kills"
cluster_down
check_leaks
