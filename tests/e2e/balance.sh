#!/usr/bin/env bash
# Busy vGPUs on one GPU move to another GPU, and back when its node is drained.
# Their programs print what they print undisturbed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1-}" in
  -h | --help) echo "usage: balance.sh BUILD"; exit 0 ;;
esac
begin "$1"
steady=$build/tests/e2e/steady
vgpus=8
second_node=

after_end() { [[ -z $second_node ]] || kill "$second_node" 2>/dev/null; }

begin_programs() {
  local i
  pids=()
  for ((i = 0; i < vgpus; ++i)); do
    timeout -k 5 "$life" "$vgpu" run -- "$steady" "$work/tmp/stop" </dev/null \
      >"$work/out/steady$i" 2>"$work/out/steady$i.err" &
    pids+=($!)
  done
  until_true status_is \
    "[.vgpus[].sessions[] | select(.state == \"running\" and .calls > 0)]
      | length == $vgpus" || fail "not all programs run: $(status .vgpus)"
}

end_programs() {
  local i
  : >"$work/tmp/stop"
  for ((i = 0; i < vgpus; ++i)); do
    wait "${pids[i]}" || fail "program $i: $(<"$work/out/steady$i.err")"
    grep -q ' rounds$' "$work/out/steady$i" || fail "program $i says nothing"
  done
  rm -- "$work/tmp/stop"
}

join_node() { # NAME
  CUDA_VISIBLE_DEVICES=1 "$build/bin/vgpu-node" --name "$1" \
    --manager "$VGPU_MANAGER" --device "${E2E_DEVICE:-cpu}" \
    --run-dir "$run_dir" </dev/null >"$work/out/node-$1" 2>&1 &
  second_node=$!
  until_true status_is \
    ".nodes[] | select(.name == \"$1\") | .state == \"alive\"" ||
    fail "node $1 did not join: $(<"$work/out/node-$1")"
}

# Ends a node in order, after its sessions have left it.
leave_node() {
  kill -TERM "$second_node"
  wait "$second_node" || fail "the node that joined ended with $?"
  second_node=
}

spread() { status '[.nodes[].pgpus[].sessions | length] | join(" ")'; }

balanced() {
  "$vgpu" events --json </dev/null |
    jq -s 'map(select(.kind == "session-balanced")) | length'
}

is_even() { [[ $(spread) == "4 4" ]]; }

# Watches for four seconds that the balancer, which samples each second, moves
# nothing any more. What it moves depends on what it measures, and so on the
# machine's other work.
stays_even() {
  local until=$(($(milliseconds) + 4000))
  [[ -n ${E2E_TIMES-} ]] || return 0
  while (($(milliseconds) < until)); do
    is_even && (($(balanced) == 4)) ||
      fail "expected 4 4 after 4 moves, saw $(spread) after $(balanced)"
    sleep 0.1
  done
}

drained() { [[ $(spread) == "8 0" ]]; }

drains() {
  local began
  began=$(milliseconds)
  order drain b
  until_true drained ||
    fail "expected 8 sessions on a and none on b, saw $(spread)"
  within 10000 $(($(milliseconds) - began)) "node b is empty"
}

cures_a_hot_spot() {
  local began
  join_node b
  began=$(milliseconds)
  until_true is_even ||
    fail "expected 4 sessions on each node, saw $(spread): $(status .)"
  within 10000 $(($(milliseconds) - began)) \
    "the second node has half of $vgpus vGPUs"
  stays_even
  drains
  end_programs
  (($(balanced) >= 4)) || fail "expected 4 moves or more, saw $(balanced)"
  has_event '.kind == "session-balanced" and
    (.text | test("went from a .* to b .*: its GPU had work for"))' ||
    fail "no event tells why"
  ! has_event '.kind == "move-failed" or .kind == "replay-differs" or
    .kind == "session-replaced" and (.text | test("migrated") | not)' ||
    fail "something failed"
  leave_node
}

# With real GPUs, each node has one of the host's two.
CUDA_VISIBLE_DEVICES=0 cluster_up --nodes 1
begin_programs
cures_a_hot_spot
cluster_down
check_leaks
