#!/usr/bin/env bash
# How long a vGPU takes to go from one GPU of a host to another while its program
# goes on writing to its memory, beside NVIDIA's own checkpoint of as much memory.
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

die() {
  echo "moves.sh: $*" >&2
  exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mib=16384 moves=4 protect=journal checkpoint=true bundle=''
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --mib) mib=${2:?--mib needs a number}; shift ;;
    --moves) moves=${2:?--moves needs a number}; shift ;;
    --protect) protect=${2:?--protect needs a level}; shift ;;
    --no-checkpoint) checkpoint=false ;;
    -*) echo "moves.sh: no such option: $1" >&2; usage >&2; exit 2 ;;
    *) bundle=$1 ;;
  esac
  shift
done
[[ -n $bundle ]] || { usage >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-gpu.XXXXXX")
program=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  [[ -z $program ]] || kill "$program" 2>/dev/null || true
  "$vgpu" down --run-dir "$work/run" </dev/null >/dev/null 2>&1 || true
  rm -rf -- "$work"
}
vgpu=/nonexistent
trap clean_up EXIT
if [[ -d $bundle ]]; then
  vgpu=$(cd "$bundle" && pwd)/bin/vgpu
else
  tar -xf "$bundle" -C "$work" || die "cannot unpack $bundle"
  vgpu=$work/vgpu/bin/vgpu
fi
[[ -x $vgpu ]] || die "no bin/vgpu in $bundle"

mkdir -m 700 "$work/run"
"$vgpu" up --nodes 1 --device nvidia --run-dir "$work/run" </dev/null \
  >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; die "vgpu up failed"; }
export VGPU_MANAGER=ipc://$work/run/manager.sock
"$vgpu" run --protect "$protect" --memory "$((mib + 512))MiB" -- \
  "$here/rewriter" "$mib" "$work/the-end" </dev/null >"$work/out" 2>"$work/err" &
program=$!
until grep -q '^ready' "$work/out"; do
  kill -0 "$program" 2>/dev/null || die "the program ended: $(<"$work/err")"
  sleep 0.05
done

for ((i = 0; i < moves; ++i)); do
  began=$EPOCHREALTIME
  "$vgpu" migrate 1 --to "a/$(((i + 1) % 2))" </dev/null >"$work/move" 2>&1 ||
    { cat "$work/move" >&2; die "vgpu migrate failed"; }
  awk -v a="$began" -v b="$EPOCHREALTIME" \
    'BEGIN { printf "move in all %.2f s\n", b - a }'
done
: >"$work/the-end"
status=0
wait "$program" || status=$?
program=
"$vgpu" events </dev/null | grep -E 'session-(migrated|replayed)|move-failed' ||
  true
tail -n 1 "$work/out"
((status == 0)) || { cat "$work/err" >&2; exit 1; }
"$vgpu" down --run-dir "$work/run" </dev/null >/dev/null
if $checkpoint; then
  echo "NVIDIA's checkpoint of $mib MiB, in seconds:"
  "$here/checkpoint" "$mib"
fi
