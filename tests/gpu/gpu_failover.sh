#!/usr/bin/env bash
# Runs PyTorch training loops that lose their worker, their node or their GPU
# half way, and checks that their losses equal the native ones. Needs bash, awk,
# tar, xz, and a python3 with PyTorch.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: gpu_failover.sh [OPTION...] BUNDLE

Runs pytorch/losses.py natively, then on vGPUs whose worker is killed half way,
whose node is (another one takes over), whose GPU is declared lost (where there
are two), and compares every loss, bit for bit. Prints one line for each: what was
lost, how the calls travelled, whether the output is the same, the longest time
between two losses, and what the manager says of the recovery.

  BUNDLE         vgpu-bundle.tar.xz, or the folder that it was unpacked to
  --steps N      training steps of each of two models (300)
  --transport T  mapped or forwarded alone
  --device D     nvidia, or cpu, which has nothing native: what is not disturbed
                 is compared with instead (nvidia)
  --losses LIST  of worker, node, gpu, with commas between (all)
  --logs DIR     where outputs and logs go of what is not the same
Ends with 1 when an output is not the same.
USAGE
}

source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
steps=300 transport='' device=nvidia losses=worker,node,gpu logs=
read_options "steps transport device losses logs" "" "$@"
[[ $steps =~ ^[1-9][0-9]*$ ]] || bad_usage "--steps: a number above 0"
open_bundle
python3 -c 'import torch' 2>/dev/null || die "python3 has no torch"
transports=(mapped forwarded)
[[ -z $transport ]] || transports=("$transport")
program=
trap '[[ -z $program ]] || kill "$program" 2>/dev/null || true; clean_up' EXIT
loop=(python3 "$here/pytorch/losses.py" "$steps")

runs=0
bring_up() { # NODES
  local cluster=$work/run$((++runs))
  mkdir -m 700 "$cluster"
  clusters+=("$cluster")
  export VGPU_MANAGER=ipc://$cluster/manager.sock
  "$vgpu" up --nodes "$1" --device "$device" --gpus-per-node 2 \
    --bind 127.0.0.1 --run-dir "$cluster" </dev/null >"$work/up.log" 2>&1 || {
    cat "$work/up.log" >&2
    die "the cluster does not come up"
  }
}

bring_down() {
  local last=$((${#clusters[@]} - 1))
  "$vgpu" down --run-dir "${clusters[last]}" </dev/null >/dev/null
  unset "clusters[last]"
}

# Prints the number, the node and the pGPU of the only session.
where() {
  "$vgpu" status --json </dev/null | python3 -c '
import json, sys
for node in json.load(sys.stdin)["nodes"]:
    for gpu in node["pgpus"]:
        for session in gpu["sessions"]:
            print(session, node["name"], gpu["ordinal"])'
}

take_away() { # WHAT
  local session node gpu
  read -r session node gpu < <(where) || die "no worker runs the program"
  case $1 in
    worker) "$vgpu" kill-worker "$session" ;;
    node) "$vgpu" kill-node "$node" ;;
    gpu) "$vgpu" inject "$node" "$gpu" lost ;;
  esac </dev/null >/dev/null
}

keep_logs() { # NAME
  [[ -n $logs ]] || return 0
  mkdir -p "$logs/$1"
  cp "$work/wanted" "$work/out" "$work/err" "${clusters[-1]}"/*.log "$logs/$1"
}

failed=false
disturbed() { # WHAT TRANSPORT
  local nodes=1 out=$work/out code=0 same=yes said line lines=0 taker=
  [[ $1 != node ]] || nodes=2
  bring_up "$nodes"
  rm -f "$work/said"
  mkfifo "$work/said"
  VGPU_TRANSPORT=$2 "$vgpu" run -- "${loop[@]}" </dev/null 2>"$work/err" \
    >"$work/said" &
  program=$!
  exec {said}<"$work/said"
  # This puts the time in front of each line, in ms.
  while IFS= read -r line <&"$said"; do
    printf '%s %s\n' "$((${EPOCHREALTIME/./} / 1000))" "$line"
    ((++lines != steps)) || { take_away "$1" & taker=$!; }
  done >"$out"
  exec {said}<&-
  wait "$program" || code=$?
  program=
  if [[ -z $taker ]]; then
    cat "$work/err" >&2
    die "the program ended before its $1 was lost"
  fi
  wait "$taker" || die "its $1 could not be taken away"
  if ! cut -d' ' -f2- "$out" | cmp -s - "$work/wanted" || ((code != 0)); then
    same=no failed=true
    keep_logs "$1-$2"
  fi
  printf '%s %s: same %s, longest pause %d ms; %s\n' "$1" "$2" "$same" \
    "$(awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 }
      END { print most }' "$out")" \
    "$("$vgpu" events </dev/null | sed -n 's/.*session-replayed *//p' |
      tr '\n' ' ')"
  bring_down
}

if [[ $device == nvidia ]]; then
  "${loop[@]}" >"$work/wanted" </dev/null
  gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())')
else
  bring_up 1
  "$vgpu" run -- "${loop[@]}" </dev/null >"$work/wanted"
  bring_down
  gpus=2
fi
for what in ${losses//,/ }; do
  if [[ $what == gpu ]] && ((gpus < 2)); then
    echo "gpu: skipped: there is one GPU"
    continue
  fi
  for transport in "${transports[@]}"; do
    disturbed "$what" "$transport"
  done
done
! $failed
