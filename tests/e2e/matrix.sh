#!/usr/bin/env bash
# Disturbs the programs of tests/cuda at a call that a seed chooses, and
# compares what they print with what they print undisturbed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: matrix.sh BUILD [--programs FILE] [--seed N] [--cells N] [--only REGEX]
                 [--json]
       matrix.sh BUILD --all [--programs FILE] [--seed N] [--only REGEX] [--json]
       matrix.sh BUILD --list [--programs FILE] [--only REGEX]
       matrix.sh BUILD --table FILE...

A cell is PROGRAM/DISTURBANCE/TRANSPORT, such as memory/bytes/worker/mapped. The
seed (another one each time, unless one is given) chooses the cells (6 of them,
--all for all), at which of its driver calls a program is disturbed, and how
many calls it makes while it is moved. DISTURBANCE:

  worker     its worker is killed
  node       the node of its worker is killed
  lost       its pGPU is lost
  suspended  its vGPU is suspended; its next call brings it back
  pgpu       it is migrated to another pGPU of its node
  elsewhere  it is migrated to another node
  snapshot   it has snapshots as often as possible, and its worker is killed

--only takes the cells whose names match. --list prints the cells, and why some
are left out (matrix_left_out.txt). --all ends with a table; --json prints an
object a cell instead, from which --table makes the table; it also has how long
the program's longest driver call took, and took undisturbed. A cell again:

  tests/e2e/matrix.sh build/default --seed 7 --only '^memory/bytes/node/mapped$'

--programs names other programs: a line SUBJECT/NAME COMMAND ARGUMENT... each.
What these write to stderr is not compared. They run undisturbed twice, and where
that prints two things, only how a disturbed run ends is compared (`varies`).
EOT
}

case "${1--h}" in
  -h | --help) usage; exit 0 ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$1 seed=$RANDOM count=6 only=. all='' act=run json='' list=
shift
while (($#)); do
  case $1 in
    --programs) list=$2; shift ;;
    --seed) seed=$2; shift ;;
    --cells) count=$2; shift ;;
    --only) only=$2; shift ;;
    --all) all=yes ;;
    --json) json=yes ;;
    --list) act=list ;;
    --table) shift; exec jq -rsf "$here/matrix_table.jq" "$@" ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
begin "$folder"
mkdir "$work/files" # of the programs, which may leave some
programs=$build/tests/cuda
disturbances=(worker node lost suspended pgpu elsewhere snapshot)
# What the programs write that must be the same: stdout, and stderr.
compared=('' .err)
[[ -z $list ]] || compared=('')

# -- cells --------------------------------------------------------------------

list_cells() {
  local program what transport
  while read -r program _; do
    for what in "${disturbances[@]}"; do
      for transport in mapped forwarded; do
        [[ ! $program/$what/$transport =~ $only ]] ||
          echo "$program/$what/$transport"
      done
    done
  done <"${list:-$programs/programs.txt}"
}

# Sets `command`, as an array.
find_command() { # PROGRAM
  command=("$programs/${1##*/}")
  [[ -z $list ]] || read -ra command < <(
    awk -v name="$1" '$1 == name { sub(/^[^ ]* */, ""); print; exit }' "$list")
}

# -- a program ----------------------------------------------------------------

# Starts the program of the cell, which is held at a call, or at none (0).
start() { # NAME AT-CALL OPTION...
  local name=$1 at=$2
  shift 2
  rm -f -- "$work/tmp/calls" "$work/tmp/held"
  timeout -k 5 "$patience" "$vgpu" run "$@" -- env TMPDIR="$work/files" \
    LD_PRELOAD="$build/tests/e2e/libstop_at_call.so" STOP_AT_CALL="$at" \
    STOP_FOLDER="$work/tmp" "${command[@]}" </dev/null \
    >"$work/out/$name" 2>"$work/out/$name.err" &
  program_pid=$!
}

await_end() {
  program_status=0
  wait "$program_pid" || program_status=$?
}

# Finds out once what the program does undisturbed, and if that is always the
# same, which is known of the programs of tests/cuda.
know_undisturbed() {
  local known=$program/$transport
  [[ $known != "$known_undisturbed" ]] || return 0
  varies=
  if [[ -n $list ]]; then
    start once 0
    await_end
  fi
  start undisturbed 0
  await_end
  undisturbed_status=$program_status known_undisturbed=$known
  read -r calls usual < <(counted) ||
    fail "$program makes no call: $(tail -n 2 "$work/out/undisturbed.err")"
  [[ -z $list ]] || cmp -s "$work/out/once" "$work/out/undisturbed" || varies=yes
}

# Prints how many calls the program made, and how many milliseconds the longest
# one took.
counted() {
  od -An -tu8 -N16 "$work/tmp/calls" | awk '{ printf "%s %.0f\n", $1, $2 / 1e6 }'
}

is_held() { [[ -e $work/tmp/held ]]; }

# Waits until the program is held at a call. Fails if it ends before.
await_held() {
  until is_held; do
    # It may have been held just before its end.
    alive "$program_pid" || is_held || return
    sleep 0.01
  done
}

# Lets it go on, until it is held again after so many calls, or for good (0).
go_on() { # CALLS
  rm -f -- "$work/tmp/held"
  echo "$1" >&"$go"
}

# Does the same, and has it go on until it has a session.
await_session() {
  while await_held; do
    if status_is '[.vgpus[].sessions[] | select(.state == "running")] != []'
    then
      held_at=$(<"$work/tmp/held")
      return 0
    fi
    go_on 1
  done
  return 1
}

# -- disturbances -------------------------------------------------------------

other_node() { [[ $1 == a ]] && echo b || echo a; }

# Has a command carried out while the program goes on, for some calls at most.
# Sets `refusal` if it is refused. A session may not come to rest before the
# program goes on, so the program is not held for ever: how long does not decide
# what it prints.
give_order() { # COMMAND ARGUMENT...
  local pid code=0 limit=$((2000 + $(milliseconds)))
  timeout -k 5 "$patience" "$vgpu" "$@" </dev/null >"$work/out/order" 2>&1 &
  pid=$!
  ((!calls_during)) || go_on "$calls_during"
  while alive "$pid" && (($(milliseconds) < limit)); do sleep 0.01; done
  go_on 0 # now, or when it gets there
  wait "$pid" || code=$?
  ((code == 0)) || refusal=$(head -n 1 "$work/out/order")
  # The program may end before it is moved.
  case $refusal in
    *'has a session'* | *'its program ended') refusal= ;;
    *'its client is not connected'*) ((!calls_during)) || refusal= ;;
  esac
}

kill_and_go_on() { # COMMAND
  until_true "$1" || fail "nobody to kill"
  go_on 0
}

kill_its_node() {
  local name
  name=$(session 'select(.state == "running") | .node')
  [[ -n $name ]] && kill_hard "$(node_pid "$name")"
}

# A session that cannot have a snapshot is not waited for: how long the program
# is held decides only what its recovery begins with.
hold_for_snapshot() {
  local limit=$((1500 + $(milliseconds)))
  until has_event ".kind == \"session-snapshot\" and .number > $before"; do
    (($(milliseconds) < limit)) || break
    sleep 0.02
  done
}

lose_its_pgpu() {
  local at
  at=$(session 'select(.state == "running") | "\(.node) \(.pgpus[0])"')
  [[ -n $at ]] && timeout "$patience" "$vgpu" inject "${at% *}" "${at#* }" lost \
    </dev/null >"$work/out/order" 2>&1
}

disturb() {
  local at
  at=$(session '"\(.node) \(.pgpus[0])"')
  case $what in
    worker) kill_and_go_on kill_its_worker ;;
    node) kill_and_go_on kill_its_node ;;
    lost) kill_and_go_on lose_its_pgpu ;;
    suspended) give_order suspend "$vgpu_id" ;;
    pgpu) give_order migrate "$vgpu_id" --to "${at% *}/$((1 - ${at#* }))" ;;
    elsewhere) give_order migrate "$vgpu_id" --to "$(other_node "${at% *}")" ;;
    snapshot)
      hold_for_snapshot
      kill_and_go_on kill_its_worker
      ;;
  esac
}

# -- a cell -------------------------------------------------------------------

# Runs the program, disturbs it, and lets it end.
run_disturbed() { # AT-CALL
  local go options=()
  [[ $what != snapshot ]] ||
    options=(--protect snapshot --snapshot-every 50ms)
  # Its own pipe, because a client that has not ended yet has the last one open,
  # with an answer that nobody read.
  rm -f -- "$work/tmp/go"
  mkfifo "$work/tmp/go"
  exec {go}<>"$work/tmp/go"
  start disturbed "$1" "${options[@]}"
  refusal='' held_at=''
  if await_session; then
    vgpu_id=$(status '[.vgpus[] | select(.sessions != [])][0].id')
    disturb
  fi
  await_end
  exec {go}>&-
}

differs() {
  ((program_status == undisturbed_status)) || {
    wrong "expected the status $undisturbed_status, saw $program_status:" \
      "$(tail -n 2 "$work/out/disturbed" "$work/out/disturbed.err")"
    return 0
  }
  [[ -z $varies ]] || return 1
  local kind
  for kind in "${compared[@]}"; do
    cmp -s "$work/out/undisturbed$kind" "$work/out/disturbed$kind" || {
      wrong "another output: $(diff "$work/out/undisturbed$kind" \
        "$work/out/disturbed$kind" | sed -n 1,4p | tr '\n' ' ')"
      return 0
    }
  done
  [[ $varying != *" $program "* ]] || return 1
  has_event ".kind == \"replay-differs\" and .number > $before" || return 1
  wrong "a replay differs" || return 0
}

# Sets `result` (same, varies, stays, never or differs) and `why`.
run_cell() { # CELL
  local at share hash
  program=${1%/*/*} transport=${1##*/} what=${1%/*}
  what=${what##*/}
  find_command "$program"
  export VGPU_TRANSPORT=$transport
  [[ -n ${VGPU_MANAGER-} ]] || cluster_up --nodes 2 --gpus-per-node 2
  know_undisturbed
  hash=$(cksum <<<"$1")
  begin_plan $(((seed + ${hash%% *}) % 1000003))
  draw share 1000
  draw_of calls_during 0 1 10 100
  before=$(last_event)
  at=$((1 + calls * share / 1000)) held_at=
  run_disturbed "$at"
  # Threads do not make the same number of calls each time.
  [[ -n $held_at ]] || run_disturbed 1
  read -r _ longest < <(counted) || longest=0
  result=same
  if [[ -z $held_at ]]; then
    result=never why="it makes no call with a session"
  elif differs; then
    result=differs
  elif [[ -n $refusal ]]; then
    result=stays why=$refusal
  elif [[ -n $varies ]]; then
    result=varies why="its undisturbed runs do not print the same"
  fi
  until_true status_is '[.vgpus[].sessions[]] == []' || result=left
  # Its events tell of a failure.
  [[ $what != @(node|lost) || $result == differs ]] || cluster_down
}

tell_cell() { # CELL
  if [[ -n $json ]]; then
    jq -nc --arg cell "$1" --arg result "$result" --arg why "$why" \
      --arg at "$held_at" --argjson longest "${longest:-0}" \
      --argjson usual "${usual:-0}" '{cell: $cell, result: $result} +
        (if $at == "" then {} else {at: $at, longest_ms: $longest,
          usual_ms: $usual} end) +
        (if $why == "" then {} else {why: $why} end)'
  else
    say "$1 at call ${held_at:-none}: $result${why:+: $why}"
  fi
}

one_cell() { # CELL
  local reason
  why='' result='' held_at='' longest=0
  if is_left_out "$1"; then
    result=left-out why=$reason
    tell_cell "$1"
    return 0
  fi
  run_cell "$1"
  tell_cell "$1" | tee -a "$work/out/told"
  case $result in
    same | varies | stays | never) return 0 ;;
  esac
  echo "again with: tests/e2e/matrix.sh $folder --seed $seed --only '^$1\$'" >&2
  [[ -n $all ]] || fail "seed $seed: $1 at call $held_at: $why"
  failures=$((failures + 1))
  cluster_down
}

choose_cells() {
  local cell number
  mapfile -t cells < <(list_cells)
  ((${#cells[@]})) || fail "no cell matches '$only'"
  [[ -z $all ]] || return 0
  local chosen=()
  begin_plan "$seed"
  while ((${#chosen[@]} < count && ${#cells[@]})); do
    draw number ${#cells[@]}
    cell=${cells[number]}
    unset "cells[number]"
    cells=("${cells[@]}")
    is_left_out "$cell" || chosen+=("$cell")
  done
  cells=("${chosen[@]}")
}

known_undisturbed='' varies='' failures=0 before=0
if [[ $act == list ]]; then
  while read -r cell; do
    if is_left_out "$cell"; then echo "$cell: $reason"; else echo "$cell"; fi
  done < <(list_cells)
  exit 0
fi
choose_cells
for cell in "${cells[@]}"; do one_cell "$cell"; done
[[ -z ${VGPU_MANAGER-} ]] || cluster_down
rm -rf -- "$work/tmp/"{go,calls,held} "$work/files"
check_leaks
((failures == 0)) || fail "seed $seed: $failures cells of ${#cells[@]}"
[[ -n $json ]] || say "seed $seed: ${#cells[@]} cells"
