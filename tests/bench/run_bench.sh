#!/usr/bin/env bash
# Takes all measurements, prints them as a table with their limits, and writes
# them as JSON.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: run_bench.sh [--build DIR] [--json FILE] [--short] [--tolerance F]

  --build DIR    the build folder (build/default)
  --json FILE    where the numbers go (DIR/bench.json)
  --short        few and short samples: about half a minute
  --tolerance F  a requirement is missed when its limit is exceeded by this
                 factor (1); neighbours on the machine cost more than noise
Ends with 1 when a requirement is missed.
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build/default
short=0 tolerance=1 json=''
source "$here/bench_options.sh"
read_options "build json tolerance" short "$@"
is_number "$tolerance" || bad_usage
json=${json:-$build/bench.json}
vgpu=$build/bin/vgpu bench=$build/bin/vgpu_bench
device_bench=$build/bin/cpu_device_bench
algorithms=$build/tests/bench/algorithms
need "$vgpu" "$bench" "$device_bench" "$algorithms"
if ((short)); then
  repetitions=7 min_time=0.05 failovers=1 first_calls=3
  export BENCH_SHORT=1 # smaller problems
else
  repetitions=9 min_time=0.3 failovers=5 first_calls=9
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-bench.XXXXXX")
cluster=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  [[ -z $cluster ]] ||
    "$vgpu" down --run-dir "$cluster" </dev/null >/dev/null 2>&1 || true
  rm -rf -- "$work"
}
trap clean_up EXIT

# Runs benchmarks and their reference in turns.
benchmarks() { # PROGRAM OUTPUT OPTION...
  local program=$1 output=$2
  shift 2
  "$program" --benchmark_out="$output" --benchmark_out_format=json \
    --benchmark_repetitions="$repetitions" \
    --benchmark_min_time="$min_time" "$@" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "$program failed"; }
}

run_algorithms() { # OPTION...
  "$vgpu" run -- "$algorithms" "$@"
}

# Starts a cluster, which programs use by that transport.
begin_cluster() { # NAME TRANSPORT
  # The name must be new, because a former cluster's client runs on for a while
  # and would serve the programs of a manager with the same name.
  cluster=$work/$1
  mkdir -m 700 "$cluster"
  "$vgpu" up --nodes 1 --run-dir "$cluster" --device cpu </dev/null \
    >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; die "vgpu up failed"; }
  export VGPU_MANAGER=ipc://$cluster/manager.sock VGPU_TRANSPORT=$2
}

end_cluster() {
  "$vgpu" down --run-dir "$cluster" </dev/null >/dev/null
  cluster=
}

calls() { # OUTPUT FILTER
  benchmarks "$bench" "$1" --benchmark_enable_random_interleaving=true \
    --benchmark_filter="$2"
}

on_a_vgpu() { # TRANSPORT
  local i
  begin_cluster "$1" "$1"
  calls "$work/$1.json" '^(launch|synchronise|read_4|zmq)'
  benchmarks "$bench" "$work/$1-copies.json" --benchmark_filter='^copy'
  # The program has the static CUDA runtime, which loads the driver by name.
  [[ $1 != mapped ]] || benchmarks run_algorithms "$work/algorithms.json"
  for ((i = 0; i < first_calls; ++i)); do
    "$bench" --first-call
  done >"$work/$1-first"
  end_cluster
}

# When threads wake each other on several processors of a virtual machine, the
# time of a round trip varies several-fold, and a ratio may show only this
# variation. On one processor a wake-up is a switch from one thread to the next.
on_one_processor() {
  local all
  all=$(taskset -cp $$)
  all=${all##*: }
  taskset -cp "${all%%[-,]*}" $$ >/dev/null
  begin_cluster one-processor forwarded
  calls "$work/one-processor.json" '^(synchronise|read_4|launch_and|zmq)'
  end_cluster
  taskset -cp "$all" $$ >/dev/null
}

on_a_vgpu mapped
on_a_vgpu forwarded
on_one_processor
benchmarks "$bench" "$work/log.json" --benchmark_filter='^(log|encode|decode)'
benchmarks "$device_bench" "$work/device.json" --benchmark_filter='^matmul/1/'
"$here/failover_bench.sh" --build "$build" --runs "$failovers" >"$work/failover.json"

jq -n --slurpfile mapped "$work/mapped.json" \
  --slurpfile forwarded "$work/forwarded.json" \
  --slurpfile one_processor "$work/one-processor.json" \
  --slurpfile mapped_copies "$work/mapped-copies.json" \
  --slurpfile forwarded_copies "$work/forwarded-copies.json" \
  --slurpfile log "$work/log.json" --slurpfile device "$work/device.json" \
  --slurpfile failover "$work/failover.json" \
  --slurpfile algorithms "$work/algorithms.json" \
  --slurpfile mapped_first "$work/mapped-first" \
  --slurpfile forwarded_first "$work/forwarded-first" \
  --argjson tolerance "$tolerance" -f "$here/table.jq" >"$json"

jq -r "$columns"'
  "measurement" + " " * 37 + "value  unit       limit",
  (.rows[] | (.name | pad(40)) + (.value | left(13)) + "  "
    + (.unit | pad(9)) + " "
    + (if .limit then (.limit | pad(14)) + (if .met then "" else "MISSED" end)
       else "" end))' "$json"
echo "written to $json"
jq -e '.met' "$json" >/dev/null || exit 1
