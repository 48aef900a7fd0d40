#!/usr/bin/env bash
# Kills the worker of PyTorch programs at a random step of each round, and says
# how long they waited; measures what protection costs. Needs bash, jq, tar, xz,
# and a python3 with PyTorch.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: kills.sh [OPTION...] BUNDLE

Runs pytorch/steps.py natively, and then on a vGPU whose worker is killed at a
random step of each round. Prints an object for each program and transport: if
the output is the same, the wait for each death, their median, in seconds.

  BUNDLE          vgpu-bundle.tar.xz, or the folder that it was unpacked to
  --programs LIST of decode, transformer, resnet50, with commas between (all)
  --transport T   mapped or forwarded alone
  --rounds N      how many times the worker dies (20)
  --steps N       steps of a round (450 tokens, 100 losses)
  --seed N        the seed (1)
  --cost N        instead of deaths, N pairs of runs with --protect none and
                  with protection, and how long their rounds took
  --in-turns N    instead of deaths, one run of which N rounds have snapshots, in
                  turns with N that have none, and how long they took
Ends with 1 when an output is not the same.
USAGE
}

source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
programs=decode,transformer,resnet50 transport='' rounds=20 steps='' seed=1 cost='' in_turns=''
read_options "programs transport rounds steps seed cost in-turns" "" "$@"
command -v jq >/dev/null || die "jq is missing"
open_bundle
python3 -c 'import torch' 2>/dev/null || die "python3 has no torch"
transports=(mapped forwarded)
[[ -z $transport ]] || transports=("$transport")
cluster=$work/cluster
mkdir -m 700 "$cluster"
clusters+=("$cluster")
export VGPU_MANAGER=ipc://$cluster/manager.sock
"$vgpu" up --device nvidia --bind 127.0.0.1 --run-dir "$cluster" </dev/null \
  >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; die "no cluster"; }

# Runs a program with kills.py, whose object gets the names of the run.
measure() { # NAME HOW OPTION... -- COMMAND...
  local name=$1 how=$2
  shift 2
  python3 "$here/kills.py" --vgpu "$vgpu" --steps "$length" --rounds "$rounds" \
    --seed "$seed" "$@" >"$work/told" 2>"$work/err" </dev/null || {
    failed=true
    tail -n 5 "$work/err" >&2
  }
  jq -c --arg program "$name" --arg how "$how" '{$program, $how} + .' \
    "$work/told" | tee "$work/last"
  jq -e '.same != false' "$work/last" >/dev/null || failed=true
}

# The time of its rounds, with protection and without, in turns.
measure_cost() { # NAME TRANSPORT COMMAND...
  local name=$1 pair level
  export VGPU_TRANSPORT=$2
  shift 2
  for ((pair = 0; pair < cost; ++pair)); do
    for level in none journal; do
      measure "$name" "$VGPU_TRANSPORT $level" --wanted "$work/$name" -- \
        "$vgpu" run --protect "$level" -- "$@"
    done
  done
}

[[ -z $in_turns ]] || rounds=$((2 * in_turns + 1))
failed=false
for name in ${programs//,/ }; do
  length=${steps:-100}
  [[ -n $steps || $name != decode ]] || length=450
  command=(python3 "$here/pytorch/steps.py" "$name" "$length" "$rounds")
  measure "$name" native --lines "$work/$name" -- "${command[@]}"
  for transport in "${transports[@]}"; do
    if [[ -n $cost ]]; then
      measure_cost "$name" "$transport" "${command[@]}"
    elif [[ -n $in_turns ]]; then
      VGPU_TRANSPORT=$transport measure "$name" "$transport" --in-turns \
        --wanted "$work/$name" -- "$vgpu" run -- "${command[@]}"
    else
      VGPU_TRANSPORT=$transport measure "$name" "$transport" --kill \
        --wanted "$work/$name" -- "$vgpu" run -- "${command[@]}"
    fi
  done
done
"$vgpu" events </dev/null | grep -E 'recovery-time|replay-differs|session-lost' || true
! $failed
