#!/usr/bin/env bash
# Runs a script of tests/e2e on the GPUs of this host. Needs bash, jq, tar and xz.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: e2e.sh BUNDLE SCRIPT ARGUMENT...

  BUNDLE    vgpu-bundle.tar.xz, or the folder that it was unpacked to
  SCRIPT    chaos_crowd.sh, divergence.sh or keyed_calls.sh
  ARGUMENT  an argument of SCRIPT after BUILD, which is the bundle

Ends with the status of SCRIPT. E2E_DEVICE=cpu needs no GPU. Examples:
  e2e.sh vgpu-bundle.tar.xz divergence.sh snapshot mapped 20
  e2e.sh vgpu-bundle.tar.xz chaos_crowd.sh --kills 500 --seed 7
USAGE
}

source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# >= 2)) || { usage >&2; exit 2; }
bundle=$1 script=$here/e2e/$2
shift 2
[[ -x $script ]] || die "there is no $script"
open_bundle
make_build
E2E_DEVICE=${E2E_DEVICE:-nvidia} "$script" "$build" "$@"
