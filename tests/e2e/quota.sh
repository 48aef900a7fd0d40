#!/usr/bin/env bash
# A quota holds for every way to allocate, and whoever meets it is the only one
# who notices.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { echo "usage: quota.sh BUILD hold mapped|forwarded"; }

begin_case 3 "$@"

# What the only other session's modules cost its GPU is told beside what it
# allocated: of code and context a real GPU's driver tells nothing.
told_beside() {
  local code='[0-9.]+ KiB' context=0 filter='.beside.code > 0 and
    .beside.context == 0'
  ! on_nvidia || {
    code='not known' context='not known' filter='.beside.code == null'
  }
  # Workers tell it from time to time.
  until_true 5 status_is "[.vgpus[].sessions[] | select(.program == \"heat\") |
    .memory > 0 and .beside.variables >= 0 and $filter] == [true]" ||
    fail "$(status .vgpus)"
  "$vgpu" status --detail >"$work/out/status"
  grep -qE "^    memory: .* allocated of 256.*MiB.*; beside that, variables \
.*, code $code, context $context" "$work/out/status" ||
    fail "$(<"$work/out/status")"
}

on_line() { # NUMBER LINE
  (($1 == 1)) || return 0
  # In the middle of the other's run, which goes on until this is done.
  "$vgpu" run --memory 1GiB -- "$build/tests/e2e/quota" 1024 </dev/null \
    >"$work/out/quota" 2>&1 || fail "$(<"$work/out/quota")"
  told_beside
  alive "$program_pid" || fail "the neighbour was done before"
}

case_hold() {
  undisturbed_heat undisturbed 1200 96 50 250
  # Room for both, and not for what is refused.
  cluster_up --nodes 1 --memory 1280MiB
  follow_program disturbed 90 "$vgpu" run --memory 256MiB -- \
    "$heat" 1200 96 50 250
  not_noticed
  (($(wc -l <"$work/out/quota") == 13)) ||
    fail "not every way was tried: $(<"$work/out/quota")"
}

run_case "$@"
