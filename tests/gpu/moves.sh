#!/usr/bin/env bash
# Measures a migration from one GPU of a host to another while the program
# writes to its memory, and compares it with NVIDIA's own checkpoint of as much
# memory.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: moves.sh [OPTION...] BUNDLE

  BUNDLE           vgpu-bundle.tar.xz, or the folder that it was unpacked to
  --mib N          how much memory the program has (16384), of which a tenth is
                   written anew each second
  --moves N        how often it is moved, there and back (4)
  --protect LEVEL  the program's protection (journal)
  --no-checkpoint  without NVIDIA's

Prints for each move how long it took in all and how long the vGPU stood still,
then the longest time between two calls of the program. Ends with 1 when the
program does not find in its memory what it wrote. Needs two GPUs.
USAGE
}

source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
mib=16384 moves=4 protect=journal no_checkpoint=
read_options "mib moves protect" "no-checkpoint" "$@"
open_bundle
program=
trap '[[ -z $program ]] || kill "$program" 2>/dev/null || true; clean_up' EXIT

cluster=$work/run
clusters=("$cluster")
mkdir -m 700 "$cluster"
"$vgpu" up --nodes 1 --device nvidia --run-dir "$cluster" </dev/null \
  >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; die "vgpu up failed"; }
export VGPU_MANAGER=ipc://$cluster/manager.sock
mkfifo "$work/said"
"$vgpu" run --protect "$protect" --memory "$((mib + 512))MiB" -- \
  "$here/rewriter" "$mib" "$work/the-end" </dev/null >"$work/said" \
  2>"$work/err" &
program=$!
exec {said}<"$work/said"
read -r line <&"$said" && [[ $line == ready ]] ||
  die "the program ended: $(<"$work/err")"

for ((i = 0; i < moves; ++i)); do
  began=$EPOCHREALTIME
  "$vgpu" migrate 1 --to "a/$(((i + 1) % 2))" </dev/null >"$work/move" 2>&1 ||
    { cat "$work/move" >&2; die "vgpu migrate failed"; }
  awk -v a="$began" -v b="$EPOCHREALTIME" \
    'BEGIN { printf "move in all %.2f s\n", b - a }'
done
: >"$work/the-end"
longest=$(tail -n 1 <&"$said") # the last that it says
status=0
wait "$program" || status=$?
program=
"$vgpu" events </dev/null | grep -E 'session-(migrated|replayed)|move-failed' ||
  true
echo "$longest"
((status == 0)) || { cat "$work/err" >&2; exit 1; }
"$vgpu" down --run-dir "$cluster" </dev/null >/dev/null
clusters=()
if [[ -z $no_checkpoint ]]; then
  echo "NVIDIA's checkpoint of $mib MiB, in seconds:"
  "$here/checkpoint" "$mib"
fi
