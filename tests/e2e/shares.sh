#!/usr/bin/env bash
# Several programs on one pGPU: each gets the compute that it was promised.
#
#   shares.sh BUILD CASE [POINTS] [SECONDS]
#
# POINTS is the largest error of a share in percentage points, and SECONDS the
# duration of a measurement. A share is the part of all completed work that a
# program gets done. With 2 points or fewer, every window of 2 s is checked, and
# the cpu device has half of the processors for itself. With more points, for a
# busy host, the share is measured over the whole time since the start, which is
# extended up to $most_looks times: a wrong division stays wrong, and random
# errors become smaller.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin "$1"
case_name=$2 points=${3-15} span=${4-3}
source "$(dirname "${BASH_SOURCE[0]}")/shares_programs.sh"
most_looks=6
((points <= 2)) && exact=true || exact=false
! $exact || device_apart

in_turns() { expect 0 "$vgpu" policy a/0 "${1-guarantee}"; }
not_in_turns() { expect 0 "$vgpu" policy a/0 best-effort; }

does_more() { (($(done_by "$1") > $2)); } # WHICH THAN

# Waits until all programs have done more than now.
all_go_on() {
  local i before=()
  for ((i = 0; i < ${#programs[@]}; ++i)); do before+=("$(done_by "$i")"); done
  for ((i = 0; i < ${#programs[@]}; ++i)); do
    until_true does_more "$i" "${before[i]}" ||
      fail "expected program $i to do more than ${before[i]}, saw $(done_by "$i")"
  done
}

# Waits until the programs get the promised shares, or fails. What they get is
# measured in tests/bench; elsewhere all must go on.
expect_shares() { # SHARE...
  local promises="$*" from look off
  [[ -n ${E2E_TIMES-} ]] || {
    all_go_on
    return
  }
  sleep "$warm_up"
  from=$(milliseconds)
  for ((look = 0; look < most_looks; ++look)); do
    sleep "$span"
    measure "$from" "$(milliseconds)" all "$promises"
    say "$case_name: shares $shares, at worst $worst points off in 2 s," \
      "Jain's index $jain"
    if $exact; then
      holds "$worst <= $points" && return
      break
    fi
    off=$(awk -v a="$shares" -v b="$promises" 'BEGIN {
      n = split(a, x); split(b, y)
      for (i = 1; i <= n; ++i) {
        d = x[i] - y[i]; d = d < 0 ? -d : d; most = d > most ? d : most }
      print 100 * most }')
    holds "$off <= $points" && return
  done
  fail "shares are $shares, not $promises within $points points" \
    "(at worst $worst points off)"
}

# Prints the device time that the only session has used since the last call.
look() {
  seconds_before=$(device_seconds) looked_at=$(milliseconds)
}
used_since_look() {
  awk -v a="$seconds_before" -v b="$(device_seconds)" \
    -v ms=$(($(milliseconds) - looked_at)) \
    'BEGIN { printf "%.3f", (b - a) * 1000 / ms }'
}

# No kind of work gets more than its limit.
case_escape() {
  local kind used
  between_programs
  for kind in kernel ex graph huge tiny copy mixed; do
    start_programs "$kind --limit 0.25"
    look
    sleep "$span"
    used=$(used_since_look)
    say "$kind with a limit of 0.25 used $used of the device"
    holds "$used <= 0.25 + $points / 100" ||
      fail "$kind used $used of the device, with a limit of 0.25"
    holds "$used > 0.02" || fail "$kind did nothing"
    stop_programs
  done
}

# A session with a small share gets the whole device when the other one is idle.
# Measures the time from the last kernel of the other until the first one does
# at least four fifths of its final work per 50 ms.
case_idle() {
  local end given most=$((points > 2 ? 500 : 50))
  start_programs "kernel --share 0.1" "kernel:2 --share 0.9"
  sleep 4
  end=$(tail -n 1 "$work/out/load1")
  end=${end% *}
  measure "$((end + 500))" "$((end + 1500))" alone "1 1"
  given=$(awk -v from="$end" -v full="${shares%% *}" '
    { ms[NR] = $1; count[NR] = $2 }
    END {
      j = 1
      for (i = 1; i <= NR; ++i) {
        while (j < NR && ms[j] < ms[i] + 50) ++j
        enough = 0.8 * full * (ms[j] - ms[i]) / 1000
        if (ms[i] >= from && count[j] - count[i] >= enough) break
      }
      print ms[i] - from
    }' "$work/out/load0")
  say "idle time was given away after $given ms"
  ((given <= most)) || fail "it took $given ms, not $most"
}

# Programs with different kinds of work: each gets an equal part of the device's
# time, or as much as it can use while the others run.
case_mix() {
  local kinds=(kernel huge copy tiny) kind alone=() demands=() reaches=()
  local look=4 promises="0.25 0.25 0.25 0.25"
  between_programs
  not_in_turns
  for kind in "${kinds[@]}"; do
    measure_alone "$kind" "$look"
    alone+=("$rate") demands+=("$demand")
  done
  start_programs "${kinds[@]}"
  reaches_of "$look" "${alone[@]}"
  in_turns equal
  measure_for "$span" all "$promises"
  reaches_of "$look" "${alone[@]}"
  measure_again all "$promises" "${alone[*]}" "${demands[*]}" "${reaches[*]}"
  stop_programs
  say "${kinds[*]} got $shares of the device's time, and were to get $promised:" \
    "at worst $of_device points of the device off in 2 s, $worst of all they got"
  holds "$of_device <= $points" ||
    fail "at worst $of_device points off, not $points"
}

# Compares the total work with turns and without. The two alternate, because the
# machine may have other work.
case_throughput() {
  local i with=0 without=0 given
  start_programs kernel kernel kernel kernel
  for ((i = 0; i < span; ++i)); do
    in_turns
    measure_for 2 all "0.25 0.25 0.25 0.25"
    with=$(awk "BEGIN { print $with + $total }")
    not_in_turns
    measure_for 2 all "0.25 0.25 0.25 0.25"
    without=$(awk "BEGIN { print $without + $total }")
  done
  stop_programs
  given=$(awk "BEGIN { print $with / $without }")
  say "turns give $given of what is done without"
  holds "$given >= 0.97 - $points / 100" ||
    fail "turns give only $given of what is done without, $span times each"
}

cluster_up --nodes 1 --gpus-per-node 1 --memory 1GiB
in_turns
case $case_name in
equal)
  in_turns equal
  start_programs kernel "kernel --share 0.1" kernel kernel
  expect_shares 0.25 0.25 0.25 0.25
  $exact && { holds "$jain >= 0.99" || fail "Jain's index is $jain"; }
  ;;
equal8)
  in_turns equal
  start_programs kernel kernel kernel kernel kernel kernel kernel kernel
  expect_shares 0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125
  $exact && { holds "$jain >= 0.99" || fail "Jain's index is $jain"; }
  ;;
promises)
  start_programs "kernel --share 0.5" "kernel --share 0.3" "kernel --share 0.2"
  expect_shares 0.5 0.3 0.2
  ;;
limit)
  start_programs "kernel --limit 0.25"
  look
  sleep "$span"
  used=$(used_since_look)
  say "with a limit of 0.25, $used of the device were used"
  holds "$used <= 0.25 + $points / 100 && $used >= 0.25 - $points / 100" ||
    fail "$used were used, not 0.25"
  ;;
resize)
  start_programs "kernel --share 0.8" "kernel --share 0.2"
  expect_shares 0.8 0.2
  expect 0 "$vgpu" set 1 share=0.3
  expect 0 "$vgpu" set 2 share=0.7
  has_event '.kind == "vgpu-resized" and .vgpu == 2' || fail "no event tells it"
  until_true status_is '[.vgpus[].share] == [0.3, 0.7]' ||
    fail "status does not show the new shares"
  expect_shares 0.3 0.7
  ;;
killed)
  # The worker that has the turn is killed. Its session is replayed, and the
  # other one continues.
  start_programs kernel kernel
  kill_hard "$(status '[.vgpus[].sessions[].worker_pid][0]')" ||
    fail "no worker to kill"
  await_event '.kind == "session-replaced"' >/dev/null ||
    fail "its session was not placed anew"
  expect_shares 0.5 0.5
  ;;
escape | idle | mix | throughput) "case_$case_name" ;;
*) fail "no case $case_name" ;;
esac
stop_programs
cluster_down
check_leaks
