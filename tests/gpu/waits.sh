#!/usr/bin/env bash
# Measures a program's waits when calls are forwarded, with busy-polling and
# without (VGPU_BUSY_POLL). Needs bash, awk, tar and xz.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: waits.sh [OPTION...] BUNDLE

Runs `calls waits` natively and forwarded over loopback, with several values of
VGPU_BUSY_POLL, in turns, and prints medians in us, a column each.

  BUNDLE         vgpu-bundle.tar.xz, or the folder that it was unpacked to
  --looks LIST   what VGPU_BUSY_POLL is, with commas between; `usual`: not set
                 (0,usual)
  --rounds N     turns (3)
  --device D     nvidia, or cpu, which has nothing native (nvidia)
  --transport T  forwarded or mapped (forwarded)
USAGE
}

source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
looks=0,usual rounds=3 device=nvidia transport=forwarded
read_options "looks rounds device transport" "" "$@"
open_bundle
IFS=, read -ra values <<<"$looks"

with_looks() { # VALUE COMMAND...
  local value=$1
  shift
  if [[ $value == usual ]]; then
    env -u VGPU_BUSY_POLL "$@"
  else
    env "VGPU_BUSY_POLL=$value" "$@"
  fi
}

for value in "${values[@]}"; do
  mkdir -m 700 "$work/$value"
  clusters+=("$work/$value")
  with_looks "$value" "$vgpu" up --nodes 1 --device "$device" --bind 127.0.0.1 \
    --run-dir "$work/$value" </dev/null >"$work/up.log" 2>&1 || {
    cat "$work/up.log" >&2
    die "the cluster does not come up"
  }
done

for ((i = 0; i < rounds; ++i)); do
  [[ $device == cpu ]] || "$here/calls" waits </dev/null | sed 's/^/native /'
  for value in "${values[@]}"; do
    with_looks "$value" env "VGPU_MANAGER=ipc://$work/$value/manager.sock" \
      "VGPU_TRANSPORT=$transport" timeout 60 "$vgpu" run -- "$here/calls" waits \
      </dev/null | sed "s/^/$value /"
  done
done >"$work/lines"

awk -f "$here/e2e/medians.awk" -v unit=us "$work/lines"
