# Runs programs of load.cu at the same time, and measures what each of them
# gets. Sourced after lib.sh and `begin`.
# shellcheck shell=bash
load=$build/tests/e2e/load
[[ -x $load ]] || fail "no $load; build e2e_load first"
shares_awk=$(dirname "${BASH_SOURCE[0]}")/shares.awk

# Keeps the client of one program running for the next.
between_programs() { export VGPU_CLIENT_IDLE_MS=2000; }

# Sets a kernel size that takes half a millisecond on the whole device.
of_this_width() {
  if on_nvidia; then
    load_blocks=528 load_loops=200000
  else
    load_blocks=$((4 * $("${to_start[@]}" nproc))) load_loops=2000
  fi
}
of_this_width

# Prints the numbers of the processors that this script may use.
own_processors() {
  local all part
  all=$(taskset -cp $$)
  for part in $(tr , ' ' <<<"${all##*: }"); do
    seq "${part%-*}" "${part#*-}"
  done
}

# Gives one half of the processors to the cpu device, which starts later, and
# the other half to this script and its programs. With a real GPU, too, programs
# and device do not compete.
device_apart() {
  local all
  mapfile -t all < <(own_processors)
  ! on_nvidia && ((${#all[@]} >= 2)) || return 0
  to_start=(taskset -c "$(IFS=,; echo "${all[*]:${#all[@]} / 2}")")
  taskset -cp "$(IFS=,; echo "${all[*]:0:${#all[@]} / 2}")" $$ >/dev/null
  of_this_width
}

# Starts a program for each argument: a kind of load, after how many seconds it
# becomes idle (optional), and options of `vgpu run`. Returns when all have done
# some work.
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
    until_true has_done_something "$name" ||
      fail "$what did nothing: $(<"$work/out/$name.err")"
  done
}

has_done_something() { # NAME
  awk '$2 > 0 { found = 1; exit } END { exit !found }' "$work/out/$1"
}

# Stops the programs, which must still be running.
stop_programs() {
  local pid
  for pid in "${programs[@]}"; do
    kill -TERM "$pid" || fail "a program has ended too soon"
  done
  for pid in "${programs[@]}"; do
    wait "$pid" || true
  done
  programs=()
  until_true status_is '[.vgpus[].sessions[]] | length == 0' ||
    fail "sessions are left of programs that were stopped"
}

# Measures what the programs got between two times. Sets shares, promised,
# worst, of_device, least, jain and total: see shares.awk.
measure() { # FROM TO all|alone "SHARE..." ["ALONE..." ["DEMAND..." ["USED..." ["REACH..."]]]]
  local files=() i name numbers
  for ((i = 0; i < ${#programs[@]}; ++i)); do files+=("$work/out/load$i"); done
  while read -r name numbers; do
    printf -v "$name" %s "$numbers"
  done < <(awk -v from="$1" -v to="$2" -v of="$3" -v shares="$4" \
    -v alone="${5-}" -v demands="${6-}" -v used="${7-}" -v reach="${8-}" \
    -f "$shares_awk" \
    "${files[@]}")
}

# Prints the device time of each session, in the order of their starts.
device_seconds() { status '[.vgpus[].sessions[].device_seconds] | @tsv'; }

# Prints a time in ms and the device times, as means of all samples in 0.2 s.
# Workers and nodes report every 0.1 s each, so a single sample may be that old.
device_seconds_told() {
  local until=$(($(milliseconds) + 200))
  while (($(milliseconds) < until)); do
    echo "$(milliseconds) $(device_seconds)"
  done | awk '
    { for (i = 1; i <= NF; ++i) sum[i] += $i }
    END {
      printf "%.0f", sum[1] / NR
      for (i = 2; i <= NF; ++i) printf " %.6f", sum[i] / NR
      print ""
    }'
}

# Measures so many seconds, after a warm-up that makes earlier work irrelevant.
# Also sets used (the part of the device that each had, by the device's count),
# and the begin and the end. On a GPU it takes some turns to learn how long work
# takes.
[[ ${E2E_DEVICE-cpu} == cpu ]] && warm_up=0.5 || warm_up=2
measure_for() { # SECONDS all|alone "SHARE..." ["ALONE..." ["DEMAND..." ["REACH..."]]]
  local span=$1 before after
  shift
  sleep "$warm_up"
  read -r began before < <(device_seconds_told)
  sleep "$span"
  read -r ended after < <(device_seconds_told)
  [[ -n $before && -n $after ]] || fail "nothing tells what the device did"
  used=$(awk -v a="$before" -v b="$after" -v ms=$((ended - began)) 'BEGIN {
      n = split(a, x); split(b, y)
      for (i = 1; i <= n; ++i) printf "%.5f ", (y[i] - x[i]) * 1000 / ms }')
  measure_again "$@"
}

# Evaluates the time of the last measure_for again, with later results.
measure_again() { # all|alone "SHARE..." ["ALONE..." ["DEMAND..." ["REACH..."]]]
  measure "$began" "$ended" "$1" "$2" "${3-}" "${4-}" "$used" "${5-}"
}

# Measures the part of its work alone that one program does while the others
# run, when it goes first, so that all others wait for it. Sets reached.
measure_first() { # WHICH SECONDS ALONE
  local number from done_before
  number=$(status ".vgpus[$1].id")
  expect 0 "$vgpu" set "$number" priority=1
  sleep "$warm_up"
  from=$(milliseconds) done_before=$(done_by "$1")
  sleep "$2"
  reached=$(awk -v a="$done_before" -v b="$(done_by "$1")" -v alone="$3" \
    -v ms=$(($(milliseconds) - from)) \
    'BEGIN { printf "%.4f", (b - a) * 1000 / ms / alone }')
  expect 0 "$vgpu" set "$number" priority=0
}

# Measures the most that each program can do while the others run. Sets reaches,
# whose former values are upper bounds, because the speed of a program's host
# varies. The pGPU keeps the policy `priority`.
reaches_of() { # SECONDS ALONE...
  local i span=$1
  shift
  expect 0 "$vgpu" policy a/0 priority
  for ((i = 0; i < $#; ++i)); do
    measure_first "$i" "$span" "${*:i+1:1}"
    [[ -n ${reaches[i]-} ]] && holds "${reaches[i]} < $reached" ||
      reaches[i]=$reached
  done
}

# Measures what each of these programs does without turns while only they have
# work, in units of what it does alone. Sets together.
measure_concurrent() { # SECONDS "ALONE..." WHICH...
  local span=$1 alone=$2 i from before=() after=()
  shift 2
  for ((i = 0; i < ${#programs[@]}; ++i)); do
    [[ " $* " == *" $i "* ]] || kill -STOP "${programs[i]}"
  done
  sleep "$warm_up" # what they have begun ends
  from=$(milliseconds)
  for i in "$@"; do before+=("$(done_by "$i")"); done
  sleep "$span"
  for i in "$@"; do after+=("$(done_by "$i")"); done
  together=$(awk -v a="${before[*]}" -v b="${after[*]}" -v alone="$alone" \
    -v which="$*" -v ms=$(($(milliseconds) - from)) 'BEGIN {
      n = split(which, of); split(a, x); split(b, y); split(alone, rate)
      for (i = 1; i <= n; ++i)
        printf "%.3f ", (y[i] - x[i]) * 1000 / ms / rate[of[i] + 1] }')
  kill -CONT "${programs[@]}"
}

# Prints the work done so far.
done_by() { awk 'NF == 2 { n = $2 } END { print n }' "$work/out/load$1"; }

# Measures the work per second of a kind of load that runs alone, and the part
# of the device that it uses. Sets rate and demand.
measure_alone() { # KIND SECONDS
  start_programs "$1"
  measure_for "$2" alone 1
  rate=$total demand=${used%% *}
  stop_programs
}

holds() { awk "BEGIN { exit !($*) }"; } # EXPRESSION
