#!/usr/bin/env bash
# A program's use is charged exactly once, even if its workers, nodes and
# manager die.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: usage.sh BUILD CASE mapped|forwarded

  kill     its workers are killed, and what they did is done again
  move     it is suspended, and migrated
  manager  its manager is killed and started again, and a worker meanwhile
EOT
}
begin_case 3 "$@"
export USER=tester
rounds=24 pause=60
mib=$((1 << 20))

kill_worker() { kill_hard "$(session .worker_pid)" || fail "no worker to kill"; }

used() { # JQ-FILTER OPTION...
  local filter=$1
  shift
  timeout -k 5 "$patience" "$vgpu" usage --json "$@" </dev/null 2>/dev/null |
    jq -r ".entries[0] | $filter"
}

# Waits for the worker's final total, which comes with its node's next
# heartbeat.
all_told() {
  [[ $(used '"\(.bytes_to_device) \(.bytes_from_device)"') == \
    "$((rounds * mib)) $mib" ]]
}

run_copies() {
  cluster_up --nodes 2
  lines_of_program=$((rounds + 1))
  follow_program copies "$vgpu" run -- "$guest" copies "$rounds" "$pause"
  ((program_status == 0)) || fail "it ended with $program_status"
  grep -qx right "$work/out/copies" || fail "it computed something else"
  until_true all_told || fail "$rounds MiB to the device and 1 from it" \
    "were charged as $(used '"\(.bytes_to_device) \(.bytes_from_device)"')"
  say "charged: $(used tojson)"
  (($(used '(.device_seconds > 0) and (.memory_mib_seconds > 0)
    | if . then 1 else 0 end') == 1)) || fail "no time was charged"
}

replayed() { # WHETHER
  [[ $(used ".bytes_replayed > 0 and .replay_seconds > 0") == "$1" ]] ||
    fail "replays are $(used .bytes_replayed) bytes"
}

case_kill() {
  on_line() { (($1 == 6 || $1 == 14)) && kill_worker || true; }
  run_copies
  replayed true
  # The user is named in every form.
  [[ $(used .user --by user) == tester ]] || fail "by user"
  [[ $(used .program --by program) == guest ]] || fail "by program"
  [[ $(used .vm --by vm) == "$(uname -n)" ]] || fail "by vm"
  [[ $(used .vgpu --since 1h) == 1 ]] || fail "since an hour ago"
  "$vgpu" usage --csv --by user >"$work/out/csv"
  grep -Eqx "tester,[0-9.e+-]+,[0-9.e+-]+,$((rounds * mib)),$mib,[0-9]+,[0-9.e+-]+" \
    "$work/out/csv" || fail "as CSV: $(<"$work/out/csv")"
  "$vgpu" usage >"$work/out/table"
  grep -Eq "^1 .* tester .* 24.0 MiB +1.0 MiB" "$work/out/table" ||
    fail "as a table: $(<"$work/out/table")"
  expect 2 "$vgpu" usage --since yesterday
  told "--since 'yesterday': give how long ago"
}

case_move() {
  on_line() {
    case $1 in
      5) order suspend 1 ;;
      10 | 15) order migrate 1 ;;
    esac
  }
  run_copies
  # Moving a state takes device time, which is not charged to the program.
  [[ $(used .bytes_replayed) == 0 ]] || fail "something was replayed"
}

case_manager() {
  local manager
  on_line() {
    case $1 in
      6)
        manager=$(status .manager.pid)
        kill_hard "$manager" && until_true dead "$manager"
        ;;
      12) order restart-manager --run-dir "$run_dir" ;;
      18) kill_worker ;;
    esac
  }
  run_copies
  replayed true
  # The next manager has the accounts of the store.
  manager=$(status .manager.pid)
  kill_hard "$manager" && until_true dead "$manager"
  order restart-manager --run-dir "$run_dir"
  all_told || fail "after a restart: $(used tojson)"
}

run_case "$@"
