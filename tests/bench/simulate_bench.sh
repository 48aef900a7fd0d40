#!/usr/bin/env bash
# Measures how many placements per second one core decides for very many vGPUs
# on a very large cluster, and the memory for that. `simulate_bench.sh VGPU
# [VGPUS]`, where VGPU is the command, prints the table and fails if a limit is
# missed.
set -euo pipefail
vgpu=$1 vgpus=${2-200000}

out=$("$vgpu" simulate --generate --nodes 10000 --gpus-per-node 8 \
  --vgpus "$vgpus" --json)
jq -r '"| placement | decisions/s | memory | waiting p99 | on their host |",
  "|---|---|---|---|---|",
  (. as $all | .policies[] | "| \(.placement) | \(.decisions_per_second |
    floor) | \($all.process_memory / 1048576 | floor) MiB | " +
    "\(.waiting_seconds.p99 * 10 | round / 10) s | " +
    "\(.local_part * 100 | round) % |")' <<<"$out"
jq -e --argjson vgpus "$vgpus" '
  all(.policies[]; .decisions_per_second >= 10000 and .finished == $vgpus) and
  .process_memory < 4 * 1024 * 1024 * 1024' <<<"$out" >/dev/null || {
  echo "a strategy decides less than 10000 times a second, or it took more" \
    "than 4 GiB" >&2
  exit 1
}
