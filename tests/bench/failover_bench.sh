#!/usr/bin/env bash
# Measures how long a program waits when its node is killed: runs heat on two
# nodes, and kills the one that serves it. Prints one JSON object per run, in
# milliseconds since the kill.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: failover_bench.sh [--build DIR] [--runs N] [--lines N] [-- OPTION...]

  --build DIR  the build folder (build/default)
  --runs N     how often (5)
  --lines N    the node is killed when heat has printed so many (40), each
               after 10 launches
  OPTION       of `vgpu run`
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build/default runs=5 lines=40
source "$here/bench_options.sh"
read_options "build runs lines" "" "$@"
is_count "$runs" && is_count "$lines" || bad_usage
vgpu=$build/bin/vgpu heat=$build/examples/heat
need "$vgpu" "$heat"

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-bench.XXXXXX")
cluster=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  [[ -z $cluster ]] ||
    "$vgpu" down --run-dir "$cluster" </dev/null >/dev/null 2>&1 || true
  rm -rf -- "$work"
}
trap clean_up EXIT

stamp() {
  local line
  while IFS= read -r line; do
    printf '%s %s\n' "$EPOCHREALTIME" "$line"
  done
}

find_serving_node() {
  "$vgpu" status --json | jq -r '
    ([.vgpus[]? | (.sessions // [])[]] | .[0].node) as $node
    | .nodes[] | select(.name == $node) | .pid' >"$work/pid"
}

kill_serving_node() {
  local pid
  pid=$(<"$work/pid")
  [[ $pid =~ ^[0-9]+$ ]] || die "no node serves heat"
  printf '%s\n' "$EPOCHREALTIME" >"$work/killed"
  kill -KILL "$pid"
}

measure_once() { # NUMBER
  local line seen=0
  rm -f "$work/stamped" "$work/killed"
  cluster=$work/$1
  mkdir -m 700 "$cluster"
  "$vgpu" up --nodes 2 --run-dir "$cluster" --device cpu </dev/null \
    >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; die "vgpu up failed"; }
  export VGPU_MANAGER=ipc://$cluster/manager.sock
  while IFS= read -r line; do
    printf '%s\n' "$line"
    seen=$((seen + 1))
    ((seen != 1)) || find_serving_node </dev/null
    # The journal contains all calls until then.
    ((seen != lines)) || kill_serving_node </dev/null >&2
  done < <(timeout -k 5 100 "$vgpu" run "${rest[@]}" -- "$heat" \
    $(((lines + 40) * 10)) 128 10 5 </dev/null | stamp) >"$work/stamped"
  wait
  grep -q 'bit for bit' "$work/stamped" ||
    { cat "$work/stamped" >&2; die "heat did not end well"; }
  "$vgpu" events --json >"$work/events"
  "$vgpu" down --run-dir "$cluster" </dev/null >/dev/null
  cluster=
  # Lines from before the kill may still arrive, so the first new result is the
  # line after the longest wait. The last line does not count, because the host
  # first computes everything again for it.
  jq -n -c --argjson killed "$(<"$work/killed")" --slurpfile all "$work/events" \
    --arg lines "$(sed -n 's/ step .*//p' "$work/stamped")" '
    def since: ((. - $killed) * 1000 | round);
    def event(kind): first($all[] | select((.kind | test(kind))
                                   and .time >= $killed - 0.05))
      // error("no event \(kind) after the kill");
    [$lines | split("\n")[] | tonumber] as $t
    | [range(1; $t | length) | select($t[.] > $killed)
       | {gap: ($t[.] - $t[. - 1]), at: $t[.]}] | max_by(.gap).at as $first
    | event("^session-replayed$") as $replay
    | {new_result: ($first | since),
       detected: (event("^(node-lost|session-suspect)$").time | since),
       replaced: (event("^session-replaced$").time | since),
       replayed: ($replay.time | since),
       calls: $replay.calls, bytes: $replay.bytes}'
}

for ((i = 0; i < runs; ++i)); do
  measure_once "$i"
done
