# What the scripts of this folder share: a private folder $work, and our programs,
# $vgpu, out of the bundle $1. To be sourced.
# shellcheck shell=bash
die() {
  echo "${0##*/}: $*" >&2
  exit 2
}

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-gpu.XXXXXX")
cluster= # the folder of one that runs
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  [[ -z $cluster ]] ||
    "$vgpu" down --run-dir "$cluster" </dev/null >/dev/null 2>&1 || true
  rm -rf -- "$work"
}
trap clean_up EXIT
if [[ -d $1 ]]; then
  vgpu=$(cd "$1" && pwd)/bin/vgpu
else
  tar -xf "$1" -C "$work" || die "cannot unpack $1"
  vgpu=$work/vgpu/bin/vgpu
fi
[[ -x $vgpu ]] || die "no bin/vgpu in $1"
