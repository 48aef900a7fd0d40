# What the end-to-end tests share. A driver begins with
#
#   source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
#   begin BUILD
#
# or, if it has cases (`usage` tells which, `case_NAME` is one), with
#
#   begin_case HOW-MANY "$@"
#   ...
#   run_case "$@"
#
# and gets $vgpu, $heat, $guest, a private folder $work (also TMPDIR and
# XDG_RUNTIME_DIR), and a clean-up at its end. Every process that it starts
# carries VGPU_E2E=$work in its environment, and is found by it. Its GPUs are cpu
# ones; where E2E_DEVICE is nvidia, those of the host.
# shellcheck shell=bash
set -euo pipefail

skip() {
  echo "SKIPPED: $*"
  exit 77
}

failure=
fail() {
  failure="FAILED: $*"
  echo "$failure" >&2
  exit 1
}

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
    VGPU_SNAPSHOT_EVERY VGPU_LOG VGPU_JOURNAL VGPU_STATE_DIR \
    VGPU_STATE_MEMORY VGPU_CLIENT VGPU_GROUP
  work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-e2e.XXXXXX")
  mkdir -m 700 "$work/tmp" "$work/xdg" "$work/out"
  # Daemons that a failing command starts must not hold ctest's pipe.
  export VGPU_E2E=$work TMPDIR=$work/tmp XDG_RUNTIME_DIR=$work/xdg
  export VGPU_CLIENT_IDLE_MS=300
  sockets_before=$(sockets) shared_before=$(shared_memory)
  trap end EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# Reads the command line: BUILD CASE, and a transport where three are wanted.
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
  # Some cases are about that, too.
  [[ -z ${VGPU_MANAGER-} ]] || cluster_down
  check_leaks
  say "$*: done"
}

# shellcheck disable=SC2317 # called by the trap
end() {
  local code=$? dir pid
  trap - EXIT INT TERM
  ((code == 0 || code == 77)) || tell_all
  [[ -z $failure ]] || echo "$failure" >&2
  for pid in $(processes); do
    kill -KILL "$pid" 2>/dev/null || true
  done
  if declare -F after_end >/dev/null; then after_end || true; fi
  if [[ -n ${E2E_KEEP-} ]]; then
    echo "kept: $work"
  else
    rm -rf -- "$work"
  fi
  exit "$code"
}

# What a reader of a failure wants to see.
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

# The processes of this test, except this script and its subshells.
processes() {
  local file
  env -u VGPU_E2E grep -lzsxF "VGPU_E2E=$work" /proc/[0-9]*/environ |
    while IFS=/ read -r _ _ file _; do echo "$file"; done || true
}

# Those that run one of our programs.
daemons() { # NAME
  local pid
  for pid in $(processes); do
    [[ $(readlink "/proc/$pid/exe" 2>/dev/null) != "$build/bin/$1" ]] ||
      echo "$pid"
  done
}

alive() { # PID
  # Of a zombie it is empty.
  { read -r -d '' _ <"/proc/$1/cmdline"; } 2>/dev/null
}

dead() { ! alive "$1"; }

# SIGKILL for a process of this test, and for no other that got its number.
kill_hard() { # PID
  grep -qzsxF "VGPU_E2E=$work" "/proc/$1/environ" || return 1
  kill -KILL "$1" 2>/dev/null
}

# Repeats a command until it succeeds.
until_true() { # SECONDS COMMAND...
  local limit=$(($1 * 1000 + $(milliseconds)))
  shift
  until "$@"; do
    (($(milliseconds) < limit)) || return 1
    let_program_go_on
    sleep 0.02
  done
}

milliseconds() { echo "${EPOCHREALTIME%???}" | tr -d .,; }

# -- a cluster ----------------------------------------------------------------

# How the manager is reached: `ip netns exec ...` where it is on another host.
at_manager=()

# What the cluster is started with: `taskset ...` where a cpu device is to have
# processors of its own.
to_start=()

# Its folder lies in $work, or in $run_on where that is set.
cluster_up() { # OPTION...
  run_dir=${run_on:-$work}/run
  # Not with this script's output, which the daemons would keep open.
  "${to_start[@]}" "$vgpu" up --device "${E2E_DEVICE:-cpu}" \
    --run-dir "$run_dir" "$@" </dev/null >"$work/out/up" 2>&1 ||
    fail "vgpu up $*: $(<"$work/out/up")"
  VGPU_MANAGER=$(sed -n 's/^manager at \([^ ]*\) .*/\1/p' "$work/out/up")
  [[ -n $VGPU_MANAGER ]] || fail "vgpu up did not tell its endpoint"
  export VGPU_MANAGER
}

on_nvidia() { [[ ${E2E_DEVICE:-cpu} == nvidia ]]; }

# The bytes of so much of the first GPU's memory.
of_memory() { status ".nodes[0].pgpus[0].memory * $1 | floor"; } # PART

cluster_down() {
  "$vgpu" down --run-dir "$run_dir" </dev/null >"$work/out/down" 2>&1 ||
    fail "vgpu down: $(<"$work/out/down")"
  unset VGPU_MANAGER
}

# A command that must do what it is told.
order() { # COMMAND ARGUMENT...
  timeout 60 "$vgpu" "$@" </dev/null >"$work/out/order" 2>&1 ||
    fail "vgpu $*: $(<"$work/out/order")"
}

status() { # JQ-FILTER
  timeout 10 "${at_manager[@]}" "$vgpu" status --json </dev/null 2>/dev/null |
    jq -r "$1"
}

status_is() { # JQ-FILTER
  timeout 10 "${at_manager[@]}" "$vgpu" status --json </dev/null 2>/dev/null |
    jq -e "$1" >/dev/null 2>&1
}

# A field of the only session; empty while there is none.
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

# Waits until there is an event, and prints the first that fits.
await_event() { # JQ-FILTER [SECONDS]
  local filter=$1 limit=$((SECONDS + ${2:-15})) line part= events pid found=
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
  [[ -n $found ]] || return 1
  printf '%s\n' "$found"
}

last_event() { status .manager.events; }

has_event() { # JQ-FILTER
  "${at_manager[@]}" "$vgpu" events --json </dev/null 2>/dev/null |
    jq -e -n "first(inputs | select($1))" >/dev/null
}

# -- programs -----------------------------------------------------------------

# A followed program may print one line more: a test that waits for something
# may wait for what the program does next. Does nothing elsewhere.
let_program_go_on() {
  [[ -z ${go_on-} ]] || echo >&"$go_on"
}

# Runs a program on the cluster, and calls `on_line NUMBER LINE` for each line
# that it prints. The program waits when it is two lines ahead of these calls
# (stepwise.cpp), unless they wait for something. Its output lands in $work/out/NAME and NAME.err; the value is
# its exit status. With takes_turns=true the program is given a line after each
# of these calls.
follow_program() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 line count=0 fifo turns go_on lines reader
  local paced=${takes_turns-false}
  shift 2
  fifo=$work/tmp/$name.fifo
  mkfifo "$fifo" "$fifo.turns" "$fifo.steps" "$fifo.lines"
  $paced || exec {turns}</dev/null
  # To read as well: who opens it waits for nobody.
  ! $paced || exec {turns}<>"$fifo.turns"
  timeout -k 5 "$limit" "$stepwise" write "$@" <&"$turns" >"$fifo" \
    2>"$work/out/$name.err" &
  program_pid=$!
  "$stepwise" read <"$fifo" 3<"$fifo.steps" >"$fifo.lines" &
  reader=$!
  # To read as well: who writes to it when the other side is done gets no signal.
  exec {go_on}<>"$fifo.steps" {lines}<"$fifo.lines"
  rm -f -- "$fifo" "$fifo.turns" "$fifo.steps" "$fifo.lines"
  while IFS= read -r line <&"$lines"; do
    printf '%s\n' "$line"
    count=$((count + 1))
    on_line "$count" "$line" >&2
    let_program_go_on
    ! $paced || echo >&"$turns"
  done >"$work/out/$name"
  exec {go_on}>&- {lines}<&- {turns}>&-
  program_status=0
  wait "$program_pid" || program_status=$?
  wait "$reader"
}

# What the same program prints when nothing happens; computed once. A real GPU's
# own driver tells.
undisturbed() { # NAME COMMAND...
  local name=$1 run=("$vgpu" run --device cpu --)
  shift
  ! on_nvidia || run=()
  env -u VGPU_MANAGER timeout -k 5 100 "${run[@]}" "$@" \
    </dev/null >"$work/out/$name" 2>"$work/out/$name.err" ||
    fail "the undisturbed $* ended with $?"
}

# Nobody has to meet it on its way: without the pauses that the last argument
# asks for, which change nothing that it prints.
undisturbed_heat() { # NAME STEPS SIZE EVERY PAUSE
  undisturbed "$1" "$heat" "${@:2:3}"
}

same() { # NAME NAME
  cmp -s "$work/out/$1" "$work/out/$2" || {
    diff "$work/out/$1" "$work/out/$2" | head -n 20 >&2
    return 1
  }
}

# To be called after `undisturbed undisturbed` and `follow_program disturbed`:
# the program did not notice what was done to it.
not_noticed() {
  ((program_status == 0)) ||
    fail "it ended with $program_status: $(<"$work/out/disturbed.err")"
  same undisturbed disturbed || fail "it printed something else"
  [[ ! -s $work/out/disturbed.err ]] || fail "$(<"$work/out/disturbed.err")"
  ! has_event '.kind == "replay-differs"' || fail "a replay differs"
}

# Runs a command that must end in a certain way. Its output is in
# $work/out/stdout and stderr.
expect() { # STATUS COMMAND...
  local want=$1 got=0
  shift
  timeout -k 5 30 "$@" </dev/null >"$work/out/stdout" \
    2>"$work/out/stderr" || got=$?
  ((got == want)) || fail "'$*' ended with $got, not $want"
}

# The last command's stderr tells, in words that fit an extended regular
# expression, what was wrong.
told() { # REGEX
  grep -qE -- "$1" "$work/out/stderr" ||
    fail "stderr does not tell '$1': $(<"$work/out/stderr")"
}

# -- what is left behind ------------------------------------------------------

# Our abstract sockets: inode and name.
sockets() {
  awk '$8 ~ /^@vgpu/ { print $7, $8 }' /proc/net/unix | sort
}

nobody_left() { [[ -z $(processes) ]]; }

# Sockets that were not there before and that nobody holds: abstract sockets end
# with who holds them, unless a descriptor of them is stuck in flight. Others
# use this host too, so only what stays so from look to look counts.
sockets_left() {
  local inode name
  comm -13 <(echo "$sockets_before") <(sockets) |
    while read -r inode name; do
      # An inode of 0 is a connection that its listener has not taken.
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

# Others use this host too: what was there before is theirs.
shared_memory_left() {
  comm -13 <(echo "$shared_before") <(shared_memory)
}

no_shared_memory_left() { [[ -z $(shared_memory_left) ]]; }

# To be called when the programs have ended and `vgpu down` was said.
check_leaks() {
  until_true 10 nobody_left || fail "still there: $(for pid in $(processes); do
    tr '\0' ' ' <"/proc/$pid/cmdline"
    echo
  done)"
  local suspects
  suspects=$(sockets_left)
  until_true 5 no_sockets_left || fail "sockets are left: $suspects"
  until_true 5 no_shared_memory_left ||
    fail "shared memory is left: $(shared_memory_left)"
  local files
  files=$(find "$work" -mindepth 1 -path "$work/out" -prune -o \
    -mindepth 1 ! -path "$work/tmp" ! -path "$work/xdg" -print)
  [[ -z $files ]] || fail "files are left: $files"
}
