#!/usr/bin/env bash
# A stranger floods the manager's port while a program runs. The program keeps
# its worker, others get their answers, and neither log nor memory grows much.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: floods.sh BUILD CASE

  connections  1,100 connections that say nothing
  frames       200,000 messages without a hello
EOT
}

begin_case 2 "$@"
steady=$build/tests/e2e/steady
flood=$build/tests/e2e/flood

# Prints the session's place, worker and epoch.
place() {
  status '[.vgpus[].sessions[] | {id, epoch, state, node, worker_pid}] | tojson'
}

runs() {
  status_is '[.vgpus[].sessions[] | select(.state == "running")] | length == 1'
}

answers() { status_is '.manager.pid > 0'; }

# Prints the bytes of all logs of the cluster.
log_bytes() { cat "$run_dir"/*.log | wc -c; }

# Prints the most memory that the manager ever had, in KiB.
peak() { sed -n 's/^VmHWM:\s*\([0-9]*\) kB$/\1/p' "/proc/$manager/status"; }

is_sanitised() { ldd "$build/bin/vgpu-manager" | grep -qE 'lib[at]san'; }

# Starts a cluster with a program on it. A flood may make a busy machine late.
begin_program() {
  # Its processes have few descriptors, as on many hosts.
  to_start=(prlimit --nofile=512:512)
  cluster_up --listen 'tcp://127.0.0.1:*' --lost-after 5000
  timeout -k 5 "$life" "$vgpu" run -- "$steady" "$work/tmp/stop" \
    </dev/null >"$work/out/program" 2>"$work/out/program.err" &
  program=$!
  until_true runs || fail "expected a session, saw $(place)"
  before=$(place) manager=$(status .manager.pid)
  bytes=$(log_bytes) kib=$(peak)
}

end_program() {
  local more
  [[ $(place) == "$before" ]] || fail "expected $before, saw $(place)"
  more=$(($(log_bytes) - bytes))
  ((more < 1 << 20)) || fail "the logs grew by $more bytes"
  more=$(($(peak) - kib))
  is_sanitised || ((more < 32 << 10)) || fail "the manager took $more KiB more"
  touch "$work/tmp/stop"
  wait "$program" || fail "the program ended with $?"
  rm "$work/tmp/stop"
  say "logs and memory grew by $(($(log_bytes) - bytes)) B and $more KiB"
}

case_connections() {
  begin_program
  "$flood" connections "$VGPU_MANAGER" 1100 </dev/null \
    >"$work/out/flood" 2>&1 &
  local stranger=$!
  until_true grep -q connected "$work/out/flood" ||
    fail "the stranger is not connected: $(<"$work/out/flood")"
  # A command gets its answer in spite of them, and they end.
  until_true answers || fail "the manager does not answer"
  wait "$stranger" || fail "the stranger failed: $(<"$work/out/flood")"
  end_program
}

case_frames() {
  begin_program
  "$flood" frames "$VGPU_MANAGER" 200000 </dev/null >"$work/out/flood" 2>&1 &
  local stranger=$!
  until_true answers || fail "the manager does not answer"
  wait "$stranger" || fail "the stranger failed: $(<"$work/out/flood")"
  until_true answers || fail "the manager does not answer"
  end_program
}

run_case "$@"
