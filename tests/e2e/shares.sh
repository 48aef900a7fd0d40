#!/usr/bin/env bash
# Several programs on one pGPU: each gets the compute that it was promised.
#
#   shares.sh BUILD CASE [POINTS] [SECONDS]
#
# POINTS: how many percentage points a share may be off; SECONDS: how long is
# measured, up to $most_windows times over. A share is what the device measured,
# of all that it did. On a host that gives the device's threads little time, a
# turn lasts until their work is done at last, and some seconds hold few turns.
# So all of the time since the first look counts: what is dealt out wrongly
# stays wrong however long one looks, and what is not comes right.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin "$1"
case_name=$2 points=${3-15} span=${4-3}
load=$build/tests/e2e/load
[[ -x $load ]] || fail "no $load; build e2e_load first"
loops=2000 most_windows=6

# Starts programs, one for each argument: options of `vgpu run`. They run for so
# many seconds, or until they are stopped.
programs=()
start_programs() { # SECONDS OPTIONS...
  local seconds=$1 options name
  shift
  local begin_at=$(($(milliseconds) + 3000))
  local end_at=$((begin_at + seconds * 1000))
  programs=()
  for options in "$@"; do
    name=load${#programs[@]}
    # shellcheck disable=SC2086 # options
    "$vgpu" run $options -- "$load" "$begin_at" "$end_at" "$loops" </dev/null \
      >"$work/out/$name" 2>"$work/out/$name.err" &
    programs+=($!)
    # One after another, so that their numbers follow their order.
    until_true 15 status_is "([.vgpus[].sessions[]] | length) ==
      ${#programs[@]} and all(.vgpus[].sessions[]; .calls > 4)" ||
      fail "program ${#programs[@]} did not begin"
  done
  while (($(milliseconds) < begin_at)); do sleep 0.02; done
}

end_programs() {
  local pid
  for pid in "${programs[@]}"; do
    wait "$pid" || fail "a program ended with $?"
  done
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
}

device_seconds() {
  status '[.vgpus[].sessions[].device_seconds] | @tsv'
}

look() {
  before=$(device_seconds) from=$(milliseconds)
}

# The part of the time since look() in which each session used the device: of
# what all did, or of the wall clock's.
shares_since() { # all|wall
  local after to
  after=$(device_seconds) to=$(milliseconds)
  shares=$(awk -v of="$1" -v wall=$((to - from)) -v a="$before" -v b="$after" '
    BEGIN {
      n = split(a, x); split(b, y)
      for (i = 1; i <= n; ++i) { d[i] = y[i] - x[i]; sum += d[i] }
      for (i = 1; i <= n; ++i)
        printf "%.4f ", d[i] / (of == "wall" ? wall / 1000 : sum)
    }')
  say "$case_name: shares $shares in $((to - from)) ms" \
    "(device seconds from $before to $after)"
}

are_shares() { # SHARE...
  awk -v got="$shares" -v want="$*" -v points="$points" '
    BEGIN {
      n = split(got, x); m = split(want, y)
      if (n != m) exit 1
      for (i = 1; i <= n; ++i) {
        off = 100 * (x[i] - y[i])
        if (off > points || off < -points) exit 1
      }
    }'
}

expect_shares() { # all|wall SHARE...
  local of=$1 window
  shift
  look
  for ((window = 0; window < most_windows; ++window)); do
    sleep "$span"
    shares_since "$of"
    ! are_shares "$@" || return 0
  done
  fail "shares are $shares, not $* within $points points"
}

cluster_up --nodes 1 --gpus-per-node 1 --memory 1GiB
expect 0 "$vgpu" policy a/0 guarantee
case $case_name in
equal)
  expect 0 "$vgpu" policy a/0 equal
  start_programs 100 "" "--share 0.1" "" ""
  expect_shares all 0.25 0.25 0.25 0.25
  ;;
promises)
  start_programs 100 "--share 0.5" "--share 0.3" "--share 0.2"
  expect_shares all 0.5 0.3 0.2
  ;;
limit)
  start_programs 100 "--limit 0.25"
  expect_shares wall 0.25
  ;;
resize)
  start_programs 200 "--share 0.8" "--share 0.2"
  expect_shares all 0.8 0.2
  expect 0 "$vgpu" set 1 share=0.3
  expect 0 "$vgpu" set 2 share=0.7
  has_event '.kind == "vgpu-resized" and .vgpu == 2' || fail "no event tells it"
  until_true 15 status_is '[.vgpus[].share] == [0.3, 0.7]' ||
    fail "status does not show the new shares"
  expect_shares all 0.3 0.7
  ;;
killed)
  # Whoever holds the turn is killed; it is replayed, and the other goes on.
  start_programs 100 "" ""
  kill_hard "$(status '[.vgpus[].sessions[].worker_pid][0]')" ||
    fail "no worker to kill"
  await_event '.kind == "session-replaced"' >/dev/null ||
    fail "its session was not placed anew"
  expect_shares all 0.5 0.5
  ;;
throughput)
  # What all do together, with turns and without.
  counts() { cat "$work"/out/load? | awk "{ n += \$1 } END { print n }"; }
  start_programs "$span" "" "" "" ""
  end_programs
  with=$(counts)
  expect 0 "$vgpu" policy a/0 best-effort
  start_programs "$span" "" "" "" ""
  end_programs
  without=$(counts)
  say "with turns $with kernels, without $without"
  awk -v a="$with" -v b="$without" -v points="$points" \
    'BEGIN { exit !(a >= b * (0.97 - points / 100)) }' ||
    fail "$with kernels with turns, $without without"
  ;;
*) fail "no case $case_name" ;;
esac
[[ $case_name == throughput ]] || stop_programs
cluster_down
check_leaks
