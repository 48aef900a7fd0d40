# Programs of load.cu that run at the same time, and what each of them gets.
# Sourced after lib.sh and `begin`.
# shellcheck shell=bash
load=$build/tests/e2e/load
[[ -x $load ]] || fail "no $load; build e2e_load first"
shares_awk=$(dirname "${BASH_SOURCE[0]}")/shares.awk

# The client of one program is there for the next.
between_programs() { export VGPU_CLIENT_IDLE_MS=2000; }

# Half a millisecond, on all of the device.
if [[ ${E2E_DEVICE-cpu} == cpu ]]; then
  load_blocks=$((4 * $(nproc))) load_loops=2000
else
  load_blocks=528 load_loops=200000
fi

# Starts programs, one for each argument: a kind of load, for how many seconds if
# it is to be idle then, and options of `vgpu run`. Returns when all have done
# something.
programs=()
start_programs() { # "KIND[:SECONDS] OPTION..."...
  local what kind options name arguments
  programs=()
  for what in "$@"; do
    read -r kind options <<<"$what"
    arguments=("${kind%%:*}" "$load_blocks" "$load_loops")
    [[ $kind != *:* ]] || arguments+=("${kind#*:}")
    name=load${#programs[@]}
    # shellcheck disable=SC2086 # options
    "$vgpu" run $options -- "$load" "${arguments[@]}" </dev/null \
      >"$work/out/$name" 2>"$work/out/$name.err" &
    programs+=($!)
    # One after another, so that their numbers follow their order.
    until_true 20 has_done_something "$name" ||
      fail "$what did nothing: $(<"$work/out/$name.err")"
  done
}

has_done_something() { # NAME
  awk '$2 > 0 { found = 1; exit } END { exit !found }' "$work/out/$1"
}

# They have worked all the while that was measured.
stop_programs() {
  local pid
  for pid in "${programs[@]}"; do
    kill -TERM "$pid" || fail "a program has ended too soon"
  done
  for pid in "${programs[@]}"; do
    wait "$pid" || true
  done
  programs=()
  until_true 10 status_is '[.vgpus[].sessions[]] | length == 0' ||
    fail "sessions are left of programs that were stopped"
}

# What they got from one point in time to another. Sets shares, worst, jain and
# total: see shares.awk.
measure() { # FROM TO all|alone "PROMISE..." ["ALONE..."]
  local files=() i name numbers
  for ((i = 0; i < ${#programs[@]}; ++i)); do files+=("$work/out/load$i"); done
  while read -r name numbers; do
    printf -v "$name" %s "$numbers"
  done < <(awk -v from="$1" -v to="$2" -v of="$3" -v promises="$4" \
    -v alone="${5-}" -f "$shares_awk" "${files[@]}")
}

# What a kind of load does a second when nobody else is there. Sets rate.
measure_alone() { # KIND SECONDS
  local from
  start_programs "$1"
  sleep 0.3
  from=$(milliseconds)
  sleep "$2"
  measure "$from" "$(milliseconds)" alone 1
  rate=$total
  stop_programs
}

holds() { awk "BEGIN { exit !($*) }"; } # EXPRESSION
