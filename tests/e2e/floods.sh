#!/usr/bin/env bash
# Somebody floods the manager's port while a program runs. The program keeps its
# worker and its pace, others get their answers, and neither log nor memory grows
# much. With E2E_TIMES=1 the times are judged, too.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: floods.sh BUILD CASE

  connections        1,100 connections that say nothing, over TCP
  frames             200,000 messages without a hello, over TCP
  local_connections  the same to the manager's Unix socket
  local_frames
  keyed_connections  the same to a manager with keys, over TCP
  keyed_frames       200,000 messages of somebody with a key, without a hello
  keyed_bytes        as many frames of a stranger, without a handshake

$E2E_FLOOD_PART divides the numbers (1).
EOT
}

begin_case 2 "$@"
steady=$build/tests/e2e/steady
flood=$build/tests/e2e/flood
part=${E2E_FLOOD_PART:-1}
many_connections=$((1100 / part)) many_frames=$((200000 / part))
longest_round_ms=400 longest_answer_ms=1000

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

is_sanitised() {
  ldd "$build/bin/vgpu-manager" | grep -E 'lib[at]san' >/dev/null
}

# Starts a cluster with a program on it. A flood may make a busy machine late.
begin_program() { # HOW OPTION...
  local how=$1
  shift
  # Its processes have few descriptors, as on many hosts.
  to_start=(prlimit --nofile=512:512)
  "$how" "$@" --lost-after 5000
  timeout -k 5 "$life" "$vgpu" run -- "$steady" "$work/tmp/stop" \
    </dev/null >"$work/out/program" 2>"$work/out/program.err" &
  program=$!
  until_true runs || fail "expected a session, saw $(place)"
  before=$(place) manager=$(status .manager.pid)
  bytes=$(log_bytes) kib=$(peak)
}

# Floods, and asks for the status until the flood is over.
flood_with() { # FLOOD-ARGUMENT...
  local stranger begun took longest=0 count=0
  "$flood" "$@" </dev/null >"$work/out/flood" 2>&1 &
  stranger=$!
  while ((count == 0)) || alive "$stranger"; do
    begun=$(milliseconds)
    until_true answers || fail "the manager does not answer"
    took=$(($(milliseconds) - begun))
    ((took <= longest)) || longest=$took
    count=$((count + 1))
  done
  wait "$stranger" || fail "the flood failed: $(<"$work/out/flood")"
  within "$longest_answer_ms" "$longest" \
    "the slowest of $count answers to vgpu status came"
}

end_program() {
  local more_bytes more_kib round
  until_true answers || fail "the manager does not answer"
  [[ $(place) == "$before" ]] || fail "expected $before, saw $(place)"
  more_bytes=$(($(log_bytes) - bytes))
  ((more_bytes < 1 << 20)) || fail "the logs grew by $more_bytes bytes"
  more_kib=$(($(peak) - kib))
  is_sanitised || ((more_kib < 32 << 10)) ||
    fail "the manager took $more_kib KiB more"
  touch "$work/tmp/stop"
  wait "$program" || fail "the program ended with $?"
  rm "$work/tmp/stop"
  round=$(sed -n 's/^longest round \([0-9]*\).*/\1/p' "$work/out/program")
  [[ -n $round ]] || fail "the program says: $(<"$work/out/program")"
  within "$longest_round_ms" "$round" "the longest round of the program ended"
  say "logs and memory grew by $more_bytes B and $more_kib KiB"
}

with_keys() {
  E2E_KEYS=1
  cluster_up "$@"
}

over_tcp() { cluster_up --listen 'tcp://127.0.0.1:*' "$@"; }

case_connections() {
  begin_program over_tcp
  flood_with connections "$VGPU_MANAGER" "$many_connections"
  end_program
}

case_frames() {
  begin_program over_tcp
  flood_with frames "$VGPU_MANAGER" "$many_frames"
  end_program
}

# Only this user and root get past the folder of the socket.
case_local_connections() {
  begin_program cluster_up
  [[ $VGPU_MANAGER == ipc://* && $(stat -c %a "$run_dir") == 700 ]] ||
    fail "the manager at $VGPU_MANAGER is not private"
  flood_with connections "$VGPU_MANAGER" "$many_connections"
  end_program
}

case_local_frames() {
  begin_program cluster_up
  flood_with frames "$VGPU_MANAGER" "$many_frames"
  end_program
}

case_keyed_connections() {
  begin_program with_keys
  flood_with connections "$VGPU_MANAGER" "$many_connections"
  end_program
}

case_keyed_frames() {
  begin_program with_keys
  flood_with frames "$VGPU_MANAGER" "$many_frames" \
    "$(jq -r .manager "$VGPU_KEYS/login.json")" \
    "$(jq -r .secret "$VGPU_KEYS/login.json")"
  end_program
}

case_keyed_bytes() {
  begin_program with_keys
  flood_with bytes "$VGPU_MANAGER" "$many_frames"
  end_program
}

run_case "$@"
