#!/usr/bin/env bash
# Protection levels: a full journal, and no journal.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: protection.sh BUILD CASE

  full       the journal reaches its cap: a snapshot covers it
  full_kill  the same, and then the node dies: the program never notices
  stuck      the same, of a session that cannot be described: it goes on
             unprotected
  stuck_kill the same, and then the node dies: the program is told
  none       --protect none, and the node dies
  none_calm  --protect none, and nobody dies
EOT
}

begin_case 2 "$@"
# This is the smallest journal. Each round of `copies` appends 1 MiB.
export VGPU_JOURNAL=$((64 << 20))
enough=100 rounds=160

on_line() { :; }

kill_its_node() {
  kill_hard "$(node_pid "$(session .node)")" || fail "cannot kill the node"
}

run_copies() { # ROUNDS PAUSE [orphan] OPTION...
  local rounds=$1 pause=$2 orphan=0
  shift 2
  if [[ ${1-} == orphan ]]; then
    orphan=1
    shift
  fi
  cluster_up --nodes 2
  lines_of_program=$((rounds + 1))
  follow_program copies "$vgpu" run "$@" -- "$guest" copies "$rounds" \
    "$pause" "$orphan"
}

ended_right() {
  ((program_status == 0)) || fail "it ended with $program_status:" \
    "$(<"$work/out/copies.err")"
  [[ $(tail -n 1 "$work/out/copies") == right ]] || fail "a wrong result"
  [[ ! -s $work/out/copies.err ]] ||
    fail "it wrote to stderr: $(<"$work/out/copies.err")"
}

# `guest` ends with 9 at a CUDA error. A program that hangs ends with 124.
ended_with_error() {
  ((program_status == 9)) || fail "it ended with $program_status, not with a" \
    "CUDA error: $(<"$work/out/copies.err")"
  grep -q cudaError "$work/out/copies.err" || fail "which error?"
  say "the program sees: $(<"$work/out/copies.err")"
}

# Runs the command with each transport, on a cluster of its own.
with_both() { # COMMAND...
  local transport
  for transport in mapped forwarded; do
    export VGPU_TRANSPORT=$transport
    "$@"
    cluster_down
    check_leaks
  done
}

full() {
  run_copies "$enough" 0
  ended_right
  has_event '.kind == "session-snapshot"' || fail "no event tells of it"
  ! has_event '.kind == "protection-lowered"' || fail "it is not protected"
}

case_full() { with_both full; }

full_kill() {
  on_line() {
    [[ $2 == "round $enough" ]] || return 0
    await_event '.kind == "session-snapshot"' >/dev/null ||
      fail "no event tells of a snapshot"
    kill_its_node
  }
  run_copies "$rounds" 10
  ended_right
  await_event '.kind == "session-replayed"' >"$work/out/event" ||
    fail "nothing was replayed"
  say "$(jq -r .text "$work/out/event")"
  # 100 MiB had been copied by then.
  jq -e '.bytes < 67108864' "$work/out/event" >/dev/null ||
    fail "all of it was replayed"
}

case_full_kill() { with_both full_kill; }

stuck() {
  run_copies "$enough" 0 orphan
  ended_right
  has_event '.kind == "snapshot-failed"' || fail "no event tells why"
  has_event '.kind == "protection-lowered"' || fail "no event tells of it"
}

case_stuck() { with_both stuck; }

stuck_kill() {
  on_line() {
    [[ $2 == "round $enough" ]] || return 0
    await_event '.kind == "protection-lowered"' >/dev/null ||
      fail "no event tells that the protection is lowered"
    kill_its_node
  }
  run_copies "$rounds" 10 orphan
  ended_with_error
  # The remaining node serves the next program.
  expect 0 "$vgpu" run -- "$guest" exit 0
}

case_stuck_kill() { with_both stuck_kill; }

case_none() {
  on_line() {
    [[ $2 == "round 20" ]] || return 0
    kill_its_node
  }
  run_copies 60 20 --protect none
  ended_with_error
  expect 0 "$vgpu" run -- "$guest" exit 0
  cluster_down
}

case_none_calm() {
  run_copies "$enough" 0 --protect none
  ended_right
  cluster_down
}

run_case "$@"
