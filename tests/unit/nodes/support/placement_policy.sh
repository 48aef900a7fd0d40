#!/usr/bin/env bash
# Tests a placement policy from a shared object, with the manager and the
# simulator. Usage: placement_policy.sh PROGRAMS GOOD.so WRONG.so
set -euo pipefail
bin=$1 good=$2 wrong=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-policy.XXXXXX")
export XDG_RUNTIME_DIR=$work TMPDIR=$work
unset VGPU_MANAGER
trap '"$bin/vgpu" down --run-dir "$work/run" 2>/dev/null || true
  rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

source "$(dirname "${BASH_SOURCE[0]}")/../expect.sh"

cd "$(dirname "$good")"
here=./$(basename "$good")
expect 0 "$bin/vgpu" simulate --generate --vgpus 200 --nodes 4 --json \
  --placement "least-loaded,$here"
jq -e --arg name "$here" '.policies | .[1].placement == $name and
  .[1].finished == 200 and
  .[1].most_gpus_in_use < .[0].most_gpus_in_use' "$work/out" >/dev/null ||
  fail "the policy packed nothing: $(<"$work/out")"
expect 2 "$bin/vgpu" simulate --generate --placement "$wrong"
told "$wrong.*version 3 of the interface"

expect 2 "$bin/vgpu" up --run-dir "$work/run" --placement-policy "$wrong"
told "$wrong.*version 3 of the interface"
expect 2 "$bin/vgpu" up --run-dir "$work/run" --placement-policy best
told "'best': give least-loaded"
for policy in "$wrong" best ./no-such.so; do
  expect 2 "$bin/vgpu-manager" --run-dir "$work/run" \
    --placement-policy "$policy"
  told "placement policy '$policy'"
done

# The manager has the policy's absolute path.
expect 0 "$bin/vgpu" up --nodes 1 --device cpu --run-dir "$work/run" \
  --placement-policy "$here"
expect 0 "$bin/vgpu" status --json --run-dir "$work/run"
jq -e --arg name "$PWD/$(basename "$good")" '.manager.placement == $name' \
  "$work/out" >/dev/null || fail "status: $(<"$work/out")"
expect 0 "$bin/vgpu" down --run-dir "$work/run"
expect 0 "$bin/vgpu" up --nodes 1 --device cpu --run-dir "$work/run"
expect 0 "$bin/vgpu" status --json --run-dir "$work/run"
jq -e '.manager.placement == "least-loaded"' "$work/out" >/dev/null ||
  fail "status: $(<"$work/out")"
echo done
