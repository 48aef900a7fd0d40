#!/usr/bin/env bash
# A quota holds for every way to allocate, and affects no other program.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { echo "usage: quota.sh BUILD hold mapped|forwarded"; }

begin_case 3 "$@"

# The neighbour works until this file appears.
stop=$work/tmp/stop

begin_neighbour() {
  timeout -k 5 "$life" "$vgpu" run --memory 256MiB -- "$build/tests/e2e/steady" \
    "$stop" </dev/null >"$work/out/neighbour" 2>"$work/out/neighbour.err" &
  neighbour=$!
  until_true status_is "[.vgpus[].sessions[] | select(.program == \"steady\"
    and .state == \"running\" and .calls > 0)] | length == 1" ||
    fail "the neighbour does not run: $(<"$work/out/neighbour.err")"
}

# Checks `steady`, which compares its results with those of the host.
neighbour_noticed_nothing() {
  local ended=0
  alive "$neighbour" || 
    fail "expected the neighbour to run, saw it end:" \
      "$(cat "$work"/out/neighbour*)"
  : >"$stop"
  wait "$neighbour" || ended=$?
  rm -- "$stop"
  ((ended == 0)) || fail "the neighbour ended with $ended: \
$(<"$work/out/neighbour.err")"
  grep -qE '^[1-9][0-9]* rounds$' "$work/out/neighbour" ||
    fail "the neighbour printed: $(<"$work/out/neighbour")"
  [[ ! -s $work/out/neighbour.err ]] || fail "$(<"$work/out/neighbour.err")"
  ! has_event '.kind == "replay-differs"' || fail "a replay differs"
}

# Checks that the status shows the memory of the other session's modules. A real
# GPU's driver does not report code and context.
wait_for_answer_beside() {
  local code='[0-9.]+ KiB' context=0 filter='.beside.code > 0 and
    .beside.context == 0'
  ! on_nvidia || {
    code='not known' context='not known' filter='.beside.code == null'
  }
  # Workers report it from time to time.
  until_true status_is "[.vgpus[].sessions[] |
    select(.program == \"steady\") |
    .memory > 0 and .beside.variables >= 0 and $filter] == [true]" ||
    fail "expected one session of steady with memory and $filter, saw" \
      "$(status '.vgpus | tojson')"
  "$vgpu" status --detail >"$work/out/status"
  grep -qE "^    memory: .* allocated of 256.*MiB.*; in addition: variables \
.*, code $code, context $context" "$work/out/status" ||
    fail "expected a line of memory with code $code and context $context, saw" \
      "$(<"$work/out/status")"
}

case_hold() {
  # There is room for both, but not for the refused allocations.
  cluster_up --nodes 1 --memory 1280MiB
  begin_neighbour
  "$vgpu" run --memory 1GiB -- "$build/tests/e2e/quota" 1024 </dev/null \
    >"$work/out/quota" 2>&1 || fail "$(<"$work/out/quota")"
  wait_for_answer_beside
  neighbour_noticed_nothing
  (($(wc -l <"$work/out/quota") == 13)) ||
    fail "not every way was tried: $(<"$work/out/quota")"
}

run_case "$@"
