# Functions that the end-to-end tests share. A test script begins with
#
#   source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
#   begin BUILD
#
# or, if it has cases (listed in `usage`, each a function `case_NAME`), with
#
#   begin_case HOW-MANY "$@"
#   ...
#   run_case "$@"
#
# and gets $vgpu, $heat, $guest, a private folder $work (also TMPDIR and
# XDG_RUNTIME_DIR), and a clean-up at its end. Every process that it starts has
# VGPU_E2E=$work in its environment, by which the clean-up finds it. The GPUs
# are cpu devices, or with E2E_DEVICE=nvidia those of the host.
# shellcheck shell=bash
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/clusters/keyed.sh"

skip() {
  echo "SKIPPED: $*"
  exit 77
}

# The last line of a failed test says what was expected, and what was seen.
failure=
fail() {
  failure="FAILED: $*"
  echo "$failure" >&2
  exit 1
}

# Says for the test's last line what is wrong, where a caller
# fails with it.
why=
wrong() { # WORDS...
  why=$*
  return 1
}

# What `set -e` ended the script for, where no `fail` tells more.
failed_command=
set -E
trap 'failed_command="${BASH_SOURCE[0]##*/}:$LINENO: \"$BASH_COMMAND\" \
ended with $?"' ERR

say() { printf '%s  %s\n' "$(date +%T.%3N)" "$*"; }

begin() { # BUILD
  build=$(cd "$1" && pwd)
  vgpu=$build/bin/vgpu heat=$build/examples/heat
  stepwise=$build/tests/e2e/stepwise
  guest=$build/tests/e2e/guest
  command -v jq >/dev/null || fail "jq is missing; tests/setup.sh installs it"
  local program
  for program in "$vgpu" "$heat" "$guest" "$stepwise"; do
    [[ -x $program ]] || fail "no $program; build the default preset first"
  done
  unset VGPU_MANAGER VGPU_SHARE VGPU_MEMORY VGPU_GPUS VGPU_PROTECT \
    VGPU_SNAPSHOT_EVERY VGPU_RECOVER_WITHIN VGPU_PROTECT_COST VGPU_ON_DIVERGENCE VGPU_LOG VGPU_JOURNAL VGPU_STATE_DIR \
    VGPU_STATE_MEMORY VGPU_CLIENT VGPU_GROUP
  work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-e2e.XXXXXX")
  mkdir -m 700 "$work/tmp" "$work/xdg" "$work/out"
  # Daemons that a failing command starts must not hold ctest's pipe.
  export VGPU_E2E=$work TMPDIR=$work/tmp XDG_RUNTIME_DIR=$work/xdg
  # There are keys in keyed clusters alone.
  export VGPU_KEYS=$work/keys/admin
  export VGPU_CLIENT_IDLE_MS=300
  sockets_before=$(sockets) shared_before=$(shared_memory)
  trap end EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# Reads the command line: BUILD CASE, and TRANSPORT if HOW-MANY is 3.
begin_case() { # HOW-MANY ARGUMENT...
  local wanted=$1
  shift
  case "${1-}" in
    -h | --help) usage; exit 0 ;;
  esac
  (($# == wanted)) || { usage >&2; exit 2; }
  begin "$1"
  ((wanted < 3)) || export VGPU_TRANSPORT=$3
}

run_case() { # BUILD CASE [TRANSPORT]
  shift
  declare -F "case_$1" >/dev/null || { usage >&2; exit 2; }
  "case_$1"
  # This checks `vgpu down` as well.
  [[ -z ${VGPU_MANAGER-} ]] || cluster_down
  check_leaks
  say "$*: done"
}

# shellcheck disable=SC2317 # called by the trap
end() {
  local code=$? dir pid
  trap - EXIT INT TERM
  ((code == 0 || code == 77)) || tell_all
  # The shell tells of its killed children, which is of no interest.
  for pid in $(processes); do
    kill -KILL "$pid" || true
    wait "$pid" || true
  done 2>/dev/null
  ((code == 0 || code == 77)) ||
    echo "${failure:-FAILED: ${failed_command:-it ended with $code}}" >&2
  if declare -F after_end >/dev/null; then after_end || true; fi
  if [[ -n ${E2E_KEEP-} ]]; then
    echo "kept: $work"
  else
    rm -rf -- "$work"
  fi
  exit "$code"
}

# Prints everything that helps to understand a failure.
tell_all() {
  local file
  exec >&2
  echo "== processes"
  local pid
  for pid in $(processes); do
    echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
  done
  if [[ -n ${VGPU_MANAGER-} ]]; then
    echo "== status"
    timeout 5 "${at_manager[@]}" "$vgpu" status </dev/null || true
    echo "== events"
    timeout 5 "${at_manager[@]}" "$vgpu" events </dev/null || true
  fi
  while IFS= read -r file; do
    echo "== $file"
    tail -n 30 "$file"
  done < <(find "$work" -type f \( -name '*.log' -o -path "$work/out/*" \) \
    -size +0 2>/dev/null | sort)
}

# -- processes ----------------------------------------------------------------

# Prints the processes of this test, except this script and its subshells.
processes() {
  local file
  env -u VGPU_E2E grep -lzsxF "VGPU_E2E=$work" /proc/[0-9]*/environ |
    while IFS=/ read -r _ _ file _; do echo "$file"; done || true
}

# Prints the processes that run this program of ours.
daemons() { # NAME
  local pid
  for pid in $(processes); do
    [[ $(readlink "/proc/$pid/exe" 2>/dev/null) != "$build/bin/$1" ]] ||
      echo "$pid"
  done
}

alive() { # PID
  # A zombie has ended. A process that begins to execute another program has no
  # command line for a moment.
  local about
  { read -r about <"/proc/$1/stat"; } 2>/dev/null &&
    [[ ${about##*)} != ' '[ZX]* ]]
}

dead() { ! alive "$1"; }

# Kills a process with SIGKILL, if it is a process of this test. Its number may
# belong to another process by now.
kill_hard() { # PID
  grep -qzsxF "VGPU_E2E=$work" "/proc/$1/environ" || return 1
  kill -KILL "$1" 2>/dev/null
}

# Kills a process of this test that this script started, and waits for its end.
end_hard() { # PID
  kill_hard "$1" || true
  wait "$1" 2>/dev/null || true
}

# How long, in seconds, anything that must happen may take, and how long a
# program may live. No machine is so slow: a test that passes never waits so
# long, so these limits decide nothing but when a failure is told. They are
# shorter than ctest's limits, which tell nothing.
patience=${E2E_PATIENCE:-150} life=$((4 * patience))

# Repeats a command until it succeeds.
until_true() { # COMMAND...
  local limit=$((patience * 1000 + $(milliseconds)))
  until "$@"; do
    if (($(milliseconds) >= limit)); then
      printf 'not so after %d s: %s\n' "$patience" "$*" >&2
      return 1
    fi
    let_program_go_on
    sleep 0.02
  done
}

# Tells a measured time. It is judged only where times are measured, which is in
# tests/bench: there E2E_TIMES is set, and the machine has nothing else to do.
within() { # LIMIT-MS MS WHAT...
  local limit=$1 took=$2
  shift 2
  say "$* after $took ms"
  [[ -z ${E2E_TIMES-} ]] || ((took <= limit)) ||
    fail "expected within $limit ms: $*; it took $took ms"
}

milliseconds() { echo "${EPOCHREALTIME%???}" | tr -d .,; }

# -- a cluster ----------------------------------------------------------------

# A prefix for commands that need the manager: `ip netns exec ...` if it is on
# another host.
at_manager=()

# A prefix for starting the cluster: `taskset ...` if a cpu device gets its own
# processors.
to_start=()

# Starts a cluster with its folder in $work, or in $run_on if that is set.
cluster_up() { # OPTION...
  if has_keys; then
    keyed_up "$@"
    return
  fi
  run_dir=${run_on:-$work}/run
  # The daemons must not inherit this script's output, which they would keep
  # open.
  "${to_start[@]}" "$vgpu" up --device "${E2E_DEVICE:-cpu}" \
    --run-dir "$run_dir" "$@" </dev/null >"$work/out/up" 2>&1 ||
    fail "vgpu up $*: $(<"$work/out/up")"
  VGPU_MANAGER=$(sed -n 's/^manager at \([^ ]*\) .*/\1/p' "$work/out/up")
  [[ -n $VGPU_MANAGER ]] || fail "vgpu up did not tell its endpoint"
  export VGPU_MANAGER
}

on_nvidia() { [[ ${E2E_DEVICE:-cpu} == nvidia ]]; }

# Prints this part of the first GPU's memory, in bytes.
of_memory() { status ".nodes[0].pgpus[0].memory * $1 | floor"; } # PART

# Starts a manager, which sets `manager_pid`, and waits until it listens. Fails
# where it ends before, as when its port is taken.
start_listening() { # LOG COMMAND...
  local log=$1 listens
  shift
  mkfifo "$work/tmp/ready"
  "$@" --ready-fd 9 </dev/null >>"$log" 2>&1 9>"$work/tmp/ready" &
  manager_pid=$!
  read -r listens <"$work/tmp/ready" || true
  rm -- "$work/tmp/ready"
  [[ -n $listens ]]
}

# Prints a port that is probably free. Another process may take it first, so that
# its user tries again. The next one is likely to be free, too.
some_port() { echo $((20000 + RANDOM % 12000)); }

cluster_down() {
  if has_keys; then
    keyed_down
    return
  fi
  "$vgpu" down --run-dir "$run_dir" </dev/null >"$work/out/down" 2>&1 ||
    fail "vgpu down: $(<"$work/out/down")"
  unset VGPU_MANAGER
}

# Kills the cluster's manager, if it is alive, and starts it again.
cluster_restart_manager() {
  if has_keys; then
    keyed_restart_manager
  else
    "$vgpu" restart-manager --run-dir "$run_dir" </dev/null
  fi
}

# Runs a command that must succeed.
order() { # COMMAND ARGUMENT...
  timeout -k 5 "$patience" "${at_manager[@]}" "$vgpu" "$@" </dev/null \
    >"$work/out/order" 2>&1 || fail "vgpu $*: $(<"$work/out/order")"
}

status() { # JQ-FILTER
  timeout "$patience" "${at_manager[@]}" "$vgpu" status --json </dev/null 2>/dev/null |
    jq -r "$1"
}

status_is() { # JQ-FILTER
  timeout "$patience" "${at_manager[@]}" "$vgpu" status --json </dev/null 2>/dev/null |
    jq -e "$1" >/dev/null 2>&1
}

# Prints a field of the only session, or nothing while there is none.
session() { # JQ-FILTER
  status "[.vgpus[]?.sessions[]?][0] // empty | $1"
}

client_of_session() { session '.client | split("-") | last'; }

node_pid() { # NAME
  status ".nodes[] | select(.name == \"$1\") | .pid"
}

# Kills the worker of the only session, if it has one.
kill_its_worker() {
  local pid
  pid=$(session 'select(.state == "running") | .worker_pid')
  [[ $pid =~ ^[1-9][0-9]*$ ]] && kill_hard "$pid"
}

# Waits until an event matches, and prints the first match.
await_event() { # JQ-FILTER
  local filter=$1 limit=$((SECONDS + patience)) line part= events pid found=
  exec {events}< <(exec "${at_manager[@]}" "$vgpu" events --follow --json \
    </dev/null 2>/dev/null)
  pid=$!
  while ((SECONDS < limit)); do
    IFS= read -r -t 0.1 line <&"$events" || {
      (($? > 128)) || break
      part+=$line # the time may end in the middle of a line
      let_program_go_on
      continue
    }
    line=$part$line part=
    if jq -e "select($filter)" <<<"$line" >/dev/null; then
      found=$line
      break
    fi
  done
  kill "$pid" 2>/dev/null || true
  exec {events}<&-
  [[ -n $found ]] || {
    printf 'no such event within %d s: %s\n' "$patience" "$filter" >&2
    return 1
  }
  printf '%s\n' "$found"
}

last_event() { status .manager.events; }

# It reads to the end: `vgpu events` would fail if its reader had left.
has_event() { # JQ-FILTER
  "${at_manager[@]}" "$vgpu" events --json </dev/null 2>/dev/null |
    jq -e -s "any(.[]; $1)" >/dev/null
}

# -- programs -----------------------------------------------------------------

# Lets a followed program print one more line, because a test may wait for the
# program's next step. The program's last lines are not for waiting: it lives
# until the test has seen what it waits for. Does nothing outside follow_program.
let_program_go_on() {
  [[ -n ${go_on-} ]] && ((steps_given < steps_for_waiting)) || return 0
  steps_given=$((steps_given + 1))
  echo >&"$go_on"
}

# How many lines a followed program prints, if that is known. `undisturbed` sets
# it.
lines_of_program=

# Runs a program on the cluster, and calls `on_line NUMBER LINE` for each line
# that it prints. The program waits when it is two lines ahead of these calls
# (stepwise.cpp), unless they call let_program_go_on. Its output is in
# $work/out/NAME and NAME.err, and the value is its exit status. With
# takes_turns=true the program gets a line on its input after each call.
follow_program() { # NAME COMMAND...
  local name=$1 line count=0 fifo turns go_on lines reader
  local paced=${takes_turns-false} steps_given=0
  # It has written three lines more than it was given steps, at most.
  local steps_for_waiting=$((${lines_of_program:-1000000} - 5))
  shift
  fifo=$work/tmp/$name.fifo
  mkfifo "$fifo" "$fifo.turns" "$fifo.steps" "$fifo.lines"
  $paced || exec {turns}</dev/null
  # Opened for reading as well, because otherwise opening would block.
  ! $paced || exec {turns}<>"$fifo.turns"
  timeout -k 5 "$life" "$stepwise" write "$@" <&"$turns" >"$fifo" \
    2>"$work/out/$name.err" &
  program_pid=$!
  "$stepwise" read <"$fifo" 3<"$fifo.steps" >"$fifo.lines" &
  reader=$!
  # Opened for reading as well, because otherwise a write after the other side's
  # end would cause a signal.
  exec {go_on}<>"$fifo.steps" {lines}<"$fifo.lines"
  rm -f -- "$fifo" "$fifo.turns" "$fifo.steps" "$fifo.lines"
  while IFS= read -r line <&"$lines"; do
    printf '%s\n' "$line"
    count=$((count + 1))
    on_line "$count" "$line" >&2
    if ((steps_given < count)); then
      steps_given=$((steps_given + 1))
      echo >&"$go_on"
    fi
    ! $paced || echo >&"$turns"
  done >"$work/out/$name"
  exec {go_on}>&- {lines}<&- {turns}>&-
  program_status=0
  wait "$program_pid" || program_status=$?
  wait "$reader"
}

program_ended() { dead "$program_pid"; }

# Computes once what the same program prints undisturbed. On a real GPU it runs
# natively. On a busy machine its vGPU may be recovered, so what it prints must
# not depend on that: `mover loose`.
undisturbed() { # NAME COMMAND...
  local name=$1 run=("$vgpu" run --device cpu --)
  shift
  ! on_nvidia || run=()
  env -u VGPU_MANAGER timeout -k 5 "$life" "${run[@]}" "$@" \
    </dev/null >"$work/out/$name" 2>"$work/out/$name.err" ||
    fail "the undisturbed $* ended with $?"
  lines_of_program=$(wc -l <"$work/out/$name")
}

# Does the same for heat. It runs without the pauses of the last argument, which
# do not change its output.
undisturbed_heat() { # NAME STEPS SIZE EVERY PAUSE
  undisturbed "$1" "$heat" "${@:2:3}"
}

same() { # NAME NAME
  cmp -s "$work/out/$1" "$work/out/$2" || {
    diff "$work/out/$1" "$work/out/$2" | sed -n 1,20p >&2
    return 1
  }
}

# Tells whether the disturbed program printed the same as the undisturbed one.
# Call it after `undisturbed undisturbed` and `follow_program disturbed`.
is_undisturbed() {
  ((program_status == 0)) || {
    wrong "expected the status 0, saw $program_status:" \
      "$(<"$work/out/disturbed.err")"
    return
  }
  same undisturbed disturbed || {
    wrong "expected the undisturbed output, saw another: the first difference" \
      "is $(cmp "$work/out/undisturbed" "$work/out/disturbed" 2>&1)"
    return
  }
  [[ ! -s $work/out/disturbed.err ]] ||
    wrong "expected nothing on stderr, saw $(<"$work/out/disturbed.err")"
}

# Checks the same, and that no replay differed.
not_noticed() {
  is_undisturbed || fail "$why"
  ! has_event '.kind == "replay-differs"' || fail "a replay differs"
}

# Runs a command that must end with this status. Its output is in
# $work/out/stdout and stderr.
expect() { # STATUS COMMAND...
  local want=$1 got=0
  shift
  timeout -k 5 "$patience" "$@" </dev/null >"$work/out/stdout" \
    2>"$work/out/stderr" || got=$?
  ((got == want)) || fail "'$*' ended with $got, not $want"
}

# Checks that the last command's stderr matches an extended regular expression.
told() { # REGEX
  grep -qE -- "$1" "$work/out/stderr" ||
    fail "stderr does not tell '$1': $(<"$work/out/stderr")"
}

# -- plans --------------------------------------------------------------------

# Plans are made from a seed. The same seed gives the same plan.
random_state=0

begin_plan() { # SEED
  # shellcheck disable=SC2034
  local ignored
  random_state=$(($1 * 7919))
  draw ignored 1000 # the first numbers of small seeds are alike
}

draw() { # NAME BELOW: the next number of the seed's sequence
  local -n into=$1
  random_state=$(((random_state * 1103515245 + 12345) & 0x7fffffff))
  # shellcheck disable=SC2034 # the name is the caller's
  into=$(((random_state >> 16) % $2))
}

draw_of() { # NAME WORD...: one of the words
  local number
  local -n word=$1
  shift
  draw number $#
  number=$((number + 1))
  # shellcheck disable=SC2034
  word=${!number}
}

# Prints so many different numbers from 1 to `most`, which the seed chooses.
some_of() { # COUNT MOST SEED
  awk -v count="$1" -v most="$2" -v seed="$3" 'BEGIN {
    srand(seed)
    while (chosen < count) {
      line = 1 + int(rand() * most)
      if (!(line in seen)) { seen[line]; ++chosen; printf "%d ", line }
    }
  }'
}

# -- the programs of tests/cuda -----------------------------------------------

# Their kernels add floats in a varying order, so replays may differ.
# shellcheck disable=SC2034 # the test's
varying=' algorithms/curand_device algorithms/k_means '

# Sets `reason` if the cell PROGRAM/DISTURBANCE/TRANSPORT is left out.
is_left_out() { # CELL
  local pattern
  reason=
  while read -r pattern reason; do
    # shellcheck disable=SC2053 # a pattern
    [[ -z $pattern || $pattern == \#* || $1 != $pattern ]] || return 0
  done <"${BASH_SOURCE[0]%/*}/matrix_left_out.txt"
  return 1
}

# -- leaks --------------------------------------------------------------------

# Prints our abstract sockets: inode and name.
sockets() {
  awk '$8 ~ /^@vgpu/ { print $7, $8 }' /proc/net/unix | sort
}

nobody_left() { [[ -z $(processes) ]]; }

# Prints new sockets that no process holds. An abstract socket ends with its
# processes, unless a descriptor of it is stuck in flight. Other tests use this
# host too, so only sockets that stay from check to check count.
sockets_left() {
  local inode name
  comm -13 <(echo "$sockets_before") <(sockets) |
    while read -r inode name; do
      # An inode of 0 is a connection that its listener has not accepted.
      [[ $inode == 0 || -n $(find /proc/[0-9]*/fd \
        -lname "socket:\\[$inode\\]" -print -quit 2>/dev/null) ]] ||
        echo "$inode $name"
    done
}

no_sockets_left() {
  suspects=$(comm -12 <(echo "$suspects") <(sockets_left))
  [[ -z $suspects ]]
}

shared_memory() { find /dev/shm -maxdepth 1 -iname '*vgpu*' | sort; }

# Prints new shared memory. Older shared memory belongs to other users.
shared_memory_left() {
  comm -13 <(echo "$shared_before") <(shared_memory)
}

no_shared_memory_left() { [[ -z $(shared_memory_left) ]]; }

# Checks for leaks, after the programs and the cluster have ended.
check_leaks() {
  until_true nobody_left || fail "still there: $(for pid in $(processes); do
    tr '\0' ' ' <"/proc/$pid/cmdline"
    echo
  done)"
  local suspects
  suspects=$(sockets_left)
  until_true no_sockets_left || fail "sockets are left: $suspects"
  until_true no_shared_memory_left ||
    fail "shared memory is left: $(shared_memory_left)"
  local files
  files=$(find "$work" -mindepth 1 -path "$work/out" -prune -o \
    -mindepth 1 ! -path "$work/tmp" ! -path "$work/xdg" -print)
  [[ -z $files ]] || fail "files are left: $files"
}
