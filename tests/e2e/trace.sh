#!/usr/bin/env bash
# `vgpu trace` writes all of a program's work, each piece once.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: trace.sh BUILD CASE mapped|forwarded

  plain   kernels, copies, calls and waits of a program, in a file that opens
  ends    exit codes and signals are the program's; bad outputs are told first
  killed  the worker dies again and again: each kernel is there once
EOT
}
begin_case 3 "$@"
trace=$work/out/trace.json

# Prints how many events match.
events_in_trace() { # JQ-FILTER
  jq "[.traceEvents[] | select($1)] | length" "$trace"
}

# Prints each kernel's name, and how often it ran.
kernels_in_trace() {
  jq -c '[.traceEvents[] | select(.cat == "kernel") | .name] | group_by(.) |
    map([.[0], length])' "$trace"
}

check_times() {
  local wrong
  wrong=$(events_in_trace '.ph == "X" and (.ts < 0 or .dur < 0)')
  ((wrong == 0)) || fail "expected no negative time, saw $wrong"
  # Work of a stream runs in order.
  jq -e '[.traceEvents[] | select(.cat == "kernel")] |
    group_by([.pid, .tid]) | all(sort_by(.ts) | . as $all |
      [range(1; length)] | all($all[.].ts + 0.001 >=
        $all[. - 1].ts + $all[. - 1].dur))' "$trace" >/dev/null ||
    fail "expected one kernel after the other in each stream, saw an overlap"
}

case_plain() {
  expect 0 "$vgpu" trace --output "$trace" --device cpu -- "$heat" 40 32 20
  told '42 kernels, [0-9]+ cop(y|ies), .* of 1 process in '
  local kernels calls
  kernels=$(events_in_trace '.cat == "kernel"')
  ((kernels == 42)) || fail "expected 42 kernels, saw $(kernels_in_trace)"
  calls=$(events_in_trace '.cat == "call" and (.name | startswith("cuLaunchKernel"))')
  ((calls == 42)) || fail "expected 42 calls of cuLaunchKernel, saw $calls"
  (($(events_in_trace '.cat == "copy" and .name == "memcpy device to pageable"') > 0)) ||
    fail "expected copies to the host, saw none"
  jq -e '[.traceEvents[] | select(.cat == "kernel") | .args.correlation] |
    length == (unique | length)' "$trace" >/dev/null ||
    fail "expected a correlation of its own for each kernel"
  check_times
}

case_ends() {
  expect 3 "$vgpu" trace --output "$trace" --device cpu -- "$guest" exit 3
  told 'vgpu trace:'
  expect 127 "$vgpu" trace --output "$trace" -- "$work/no-such-program"
  expect 2 "$vgpu" trace --output "$work/no/such/folder/x" -- "$guest" exit 0
  told 'cannot write .*/no/such/folder/x'
  expect 2 "$vgpu" trace
  local how
  how=$("$build/tests/e2e/ending" "$vgpu" trace --output "$trace" --device cpu \
    -- "$guest" signal "$(kill -l TERM)" 2>/dev/null) || true
  [[ $how == "signal $(kill -l TERM)" ]] || fail "expected SIGTERM, saw $how"
}

case_killed() {
  local rounds=60 expected
  undisturbed_heat undisturbed "$rounds" 64 1 20
  "$vgpu" trace --output "$trace" --device cpu -- "$heat" "$rounds" 64 1 \
    </dev/null >/dev/null 2>&1 || fail "the undisturbed trace ended with $?"
  expected=$(kernels_in_trace)
  rm -- "$trace"
  cluster_up
  on_line() {
    (($1 % 15 == 5)) || return 0
    until_true kill_its_worker || fail "no worker to kill"
  }
  follow_program disturbed "$vgpu" trace --output "$trace" -- \
    "$heat" "$rounds" 64 1 20
  ((program_status == 0)) || fail "expected the status 0, saw $program_status"
  same undisturbed disturbed || fail "expected the undisturbed output"
  has_event '.kind == "session-replayed"' || fail "nothing was replayed"
  [[ $(kernels_in_trace) == "$expected" ]] ||
    fail "expected $expected, saw $(kernels_in_trace)"
}

run_case "$@"
