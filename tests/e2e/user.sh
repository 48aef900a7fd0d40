#!/usr/bin/env bash
# The behaviour that a user of vGPUs sees.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: user.sh BUILD CASE

  embedded    no cluster: `vgpu run` brings one along
  cluster     the same on a cluster
  library     no `vgpu run`: LD_LIBRARY_PATH alone
  alone       the same, and no cluster either
  interrupt   Ctrl-C and SIGTERM, from outside
  printf      what kernels print arrives once, also when the node dies
  up_down     `vgpu up` twice, `vgpu down`, `vgpu down` again
  idle        a cluster that nobody uses uses nothing
  looks       ZeroMQ's threads of client and worker busy-poll if configured
  leaves      a program that comes just as its host's client ends
EOT
}

begin_case 2 "$@"

every_byte() {
  local i
  for ((i = 0; i < 256; ++i)); do
    # shellcheck disable=SC2059 # an escape
    printf "\\x$(printf %02x "$i")"
  done
}

# Checks statuses, signals and streams of programs that `"$@" PROGRAM ARGUMENTS`
# runs.
check_runner() { # COMMAND...
  expect 0 "$@" "$guest" exit 0
  [[ ! -s $work/out/stdout && ! -s $work/out/stderr ]] ||
    fail "something was printed: $(cat "$work"/out/std*)"
  expect 3 "$@" "$guest" exit 3
  expect 255 "$@" "$guest" exit 255
  check_signal SEGV "$@" "$guest" signal "$(kill -l SEGV)"
  check_signal TERM "$@" "$guest" signal "$(kill -l TERM)"
  check_signal KILL "$@" "$guest" signal "$(kill -l KILL)"
  every_byte >"$work/out/bytes"
  expect 0 "$@" "$guest" bytes
  cmp "$work/out/bytes" "$work/out/stdout" || fail "stdout was touched"
  cmp "$work/out/bytes" "$work/out/stderr" || fail "stderr was touched"
  expect 0 "$@" "$guest" fork
  [[ $(<"$work/out/stdout") == forked ]] || fail "fork: no answer"
  expect 0 "$@" "$guest" print 3
  printf 'device: step %d\nhost: step %d\n' 1 1 2 2 3 3 |
    cmp - "$work/out/stdout" || fail "printf in another order"
}

# Checks that the shell sees a signal as the end, and not only 128 + the signal.
check_signal() { # SIGNAL COMMAND...
  local want=$1 got
  shift
  # A sanitizer must not handle the program's signals.
  got=$(ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_segv=0 ending_of "$@")
  [[ $got == "signal $(kill -l "$want")" ]] ||
    fail "'$*' ended with $got, not by SIG$want"
}

ending_of() { # COMMAND...
  "$build/tests/e2e/ending" "$@" </dev/null 2>/dev/null
}

check_gpus() {
  expect 0 "$vgpu" run "$@" --gpus 2 -- "$guest" devices
  [[ $(<"$work/out/stdout") == $'device 0 works\ndevice 1 works' ]] ||
    fail "--gpus 2 shows: $(<"$work/out/stdout")"
  expect 0 "$vgpu" run "$@" -- "$guest" devices
  [[ $(<"$work/out/stdout") == "device 0 works" ]] ||
    fail "one GPU shows: $(<"$work/out/stdout")"
}

case_embedded() {
  check_runner "$vgpu" run --device cpu --
  check_gpus --device cpu
  expect 0 "$vgpu" run --device cpu -- true
  expect 0 "$vgpu" run --device cpu -- bash -c "'$guest' fork && '$guest' fork"
}

case_cluster() {
  cluster_up --nodes 1 --gpus-per-node 2
  check_runner "$vgpu" run --
  check_gpus
  until_true status_is '[.vgpus[].sessions[]] == []' ||
    fail "sessions are left: $(status .)"
  cluster_down
}

# Each program chooses its transport, independently of other programs.
case_transports() {
  cluster_up --nodes 1
  export VGPU_LOG=info
  VGPU_TRANSPORT=mapped expect 0 "$vgpu" run -- "$guest" print 1 1
  told 'on a, log mapped'
  VGPU_TRANSPORT=forwarded expect 0 "$vgpu" run -- "$guest" print 1 1
  told 'on a, calls forwarded'
  unset VGPU_LOG
  cluster_down
}

# Client and worker log at their end how often they busy-polled.
case_looks() {
  [[ $(ldd "$build/bin/vgpu-client") != *san.so* ]] ||
    skip "sanitizers have an epoll_wait of their own"
  local looks often
  for looks in 0:0 '1000:[1-9][0-9]*'; do
    often="busy-polled in ${looks#*:} of [1-9][0-9]* waits"
    export VGPU_BUSY_POLL=${looks%:*} VGPU_LOG=debug VGPU_TRANSPORT=forwarded
    cluster_up --nodes 1
    expect 0 "$vgpu" run -- "$guest" print 100 0
    until_true grep -qE "$often" "$work/out/stderr" ||
      fail "$looks: of the client: $(<"$work/out/stderr")"
    until_true grep -qrE "worker.*$often" "$run_dir" ||
      fail "$looks: of the worker: $(cat "$run_dir"/*.log)"
    cluster_down
  done
  unset VGPU_LOG VGPU_TRANSPORT
  expect 2 env VGPU_BUSY_POLL=often "$vgpu" run -- "$guest" exit 0
  told "VGPU_BUSY_POLL: 'often' is no number of microseconds"
  expect 1 env VGPU_BUSY_POLL=1001 "$vgpu" up --run-dir "$work/run"
  told "VGPU_BUSY_POLL: '1001' is no number of microseconds"
  unset VGPU_BUSY_POLL
}

case_library() {
  export LD_LIBRARY_PATH=$build/lib
  # Without a manager there is no GPU, and the program soon gets an error.
  VGPU_MANAGER=ipc://$work/none.sock expect 9 "$guest" exit 0
  told cudaErrorNoDevice
  cluster_up --nodes 1
  check_runner env
  check_signal TERM env "$guest" signal "$(kill -l TERM)"
  cluster_down
  unset LD_LIBRARY_PATH
}

# The client starts its own cluster, which ends when no program needs it.
case_alone() {
  undisturbed_heat undisturbed 600 96 20 15
  export LD_LIBRARY_PATH=$build/lib
  expect 0 "$guest" fork
  VGPU_GPUS=2 expect 0 "$guest" devices
  on_line() {
    (($1 == 10)) || return 0
    local pid
    for pid in $(daemons vgpu-client); do kill_hard "$pid" || true; done
  }
  follow_program disturbed "$heat" 600 96 20 15
  ((program_status == 0)) || fail "heat without its client: $program_status"
  same undisturbed disturbed || fail "heat prints other lines"
  until_true nobody_left || fail "still there: $(processes)"
  # There is no place for a cluster's files.
  VGPU_LOG=error XDG_RUNTIME_DIR=/proc expect 9 "$guest" exit 0
  told cudaErrorNoDevice
  told "run directory /proc/vgpu-own"
}

# Starts `guest wait` in a process group of its own, as a terminal would.
start_waiting() { # COMMAND...
  : >"$work/out/waiting"
  "$build/tests/e2e/ending" --group "$@" "$guest" wait </dev/null \
    >"$work/out/waiting" 2>&1 &
  waiting=$!
  until_true grep -q ready "$work/out/waiting" ||
    fail "'guest wait' is not ready: $(<"$work/out/waiting")"
  group=$(sed -n 's/^group //p' "$work/out/waiting")
}

check_interrupts() { # COMMAND...
  local name
  for name in INT TERM HUP; do
    start_waiting "$@"
    kill -s "$name" -- "-$group" # to the whole group, as Ctrl-C does
    wait "$waiting" || true
    grep -qx "signal $(kill -l "$name")" "$work/out/waiting" ||
      fail "SIG$name to the group of $*: $(<"$work/out/waiting")"
    start_waiting "$@"
    kill -s "$name" "$group" # to `vgpu run` alone
    wait "$waiting" || true
    grep -qx "signal $(kill -l "$name")" "$work/out/waiting" ||
      fail "SIG$name to $*: $(<"$work/out/waiting")"
  done
}

case_interrupt() {
  check_interrupts "$vgpu" run --device cpu --
  check_leaks
  # SIGKILL cannot be forwarded. The remaining processes must end by themselves.
  start_waiting "$vgpu" run --device cpu --
  kill -KILL "$group"
  wait "$waiting" || true
  check_leaks
  cluster_up
  check_interrupts "$vgpu" run --
  until_true status_is '[.vgpus[].sessions[]] == []' ||
    fail "sessions are left: $(status .)"
  cluster_down
}

case_printf() {
  local steps=40 transport
  for transport in mapped forwarded; do
    export VGPU_TRANSPORT=$transport
    cluster_up --nodes 2
    killed=
    on_line() {
      [[ $2 == "host: step 20" ]] || return 0
      kill_hard "$(node_pid "$(session .node)")" || fail "cannot kill the node"
      killed=yes
    }
    lines_of_program=$((2 * steps))
    follow_program printed "$vgpu" run -- "$guest" print "$steps" 10
    ((program_status == 0)) || fail "it ended with $program_status"
    [[ $killed == yes ]] || fail "no node was killed"
    has_event '.kind == "session-replayed"' || fail "nothing was replayed"
    for ((i = 1; i <= steps; ++i)); do
      printf 'device: step %d\nhost: step %d\n' "$i" "$i"
    done | diff - "$work/out/printed" ||
      fail "with $transport, lines are missing, twice there, or out of order"
    cluster_down
    check_leaks
  done
}

restarts=0
on_line() { # NUMBER LINE
  (($1 == 4)) || return 0
  cluster_down
  cluster_up --nodes 1
  restarts=$((restarts + 1))
}

case_up_down() {
  cluster_up --nodes 2
  expect 1 "$vgpu" up --run-dir "$run_dir"
  told "is up .* already"
  told "vgpu down"
  expect 0 "$vgpu" status
  grep -q "node b" "$work/out/stdout" || fail "the first cluster is disturbed"
  # This calls `vgpu down` while a program runs.
  start_waiting "$vgpu" run --
  cluster_down
  grep -q "^1 program waits for a cluster at ipc:" "$work/out/down" ||
    fail "no message names a waiting program: $(<"$work/out/down")"
  kill -TERM "$group"
  wait "$waiting" || true
  check_leaks
  expect 1 "$vgpu" down --run-dir "$run_dir"
  told "no cluster was started"
  # A program continues with the next cluster at the same endpoint.
  undisturbed_heat undisturbed 600 96 50 20
  cluster_up --nodes 1
  follow_program disturbed "$vgpu" run -- "$heat" 600 96 50 20
  ((program_status == 0)) || fail "heat ended with $program_status"
  same undisturbed disturbed || fail "heat prints other lines"
  ((restarts == 1)) || fail "the cluster was not restarted"
  cluster_down
  # Files of a crashed cluster must not prevent a new one.
  local pid
  cluster_up --nodes 1
  for pid in $(daemons vgpu-node) $(daemons vgpu-manager); do
    kill_hard "$pid"
  done
  until_true nobody_left
  cluster_up --nodes 1
  expect 0 "$vgpu" run -- "$guest" exit 0
  cluster_down
  # In the default place.
  "$vgpu" up </dev/null >"$work/out/up" 2>&1 || fail "vgpu up"
  expect 0 "$vgpu" run -- "$guest" exit 0
  expect 0 "$vgpu" events
  grep -q session-opened "$work/out/stdout" || fail "it did not run there"
  expect 0 "$vgpu" down
}

# Prints the nanoseconds for which the threads of all our processes have run.
time_used() {
  local pid
  for pid in $(processes); do
    cat "/proc/$pid/task/"*/schedstat 2>/dev/null || true
  done | awk '{ total += $1 } END { printf "%d\n", total }'
}

measure_idle() { # WHAT
  local before used
  before=$(time_used)
  sleep 5 # the time over which is measured
  used=$((($(time_used) - before) / 1000000))
  say "$1: $used ms of CPU time in 5 s"
  # Heartbeats take 60 to 80 ms on a quiet machine, and more on a busy one, so
  # this case is one of tests/bench.
  ((used < 150)) || fail "$1: $used ms in 5 s are 3 % of a core or more"
}

# An idle cluster must use little processor time, even with the longest
# busy-polls.
case_idle() {
  export VGPU_BUSY_POLL=1000 VGPU_TRANSPORT=forwarded
  cluster_up --nodes 2
  measure_idle "an idle cluster of 2 nodes"
  start_waiting "$vgpu" run --
  measure_idle "with a program that does nothing"
  kill -TERM "$group"
  wait "$waiting" || true
  cluster_down
}

case_leaves() {
  cluster_up --nodes 1
  "$build/tests/e2e/leaver" 3 </dev/null >"$work/out/leaver" 2>&1 &
  local leaver=$!
  until_true grep -q listens "$work/out/leaver" ||
    fail "no client that leaves: $(<"$work/out/leaver")"
  expect 0 "$vgpu" run -- "$guest" exit 0
  wait "$leaver" || fail "no program connected to the client that ended"
}

run_case "$@"
