#!/usr/bin/env bash
# Builds the fuzz targets with libFuzzer and runs each for a while.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: run_fuzz.sh [SECONDS [TARGET...]]

Runs each fuzz target (or those named) for SECONDS (60), from its corpus in
corpus/TARGET on. What it learns is kept in build/fuzz/corpus; an input that
fails is left as build/fuzz/found/TARGET-*. Ends with 1 when there is one: make
it part of corpus/TARGET, and the test fuzz.TARGET fails until it is repaired.
Ends with 77 when there is no clang.
USAGE
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/fuzz
targets=("${@:2}")
((${#targets[@]})) || targets=(call_log data_head envelope manager node guest
  module_facts state packets board ptx image image_names etcd store profiles
  arrivals activities environment)
command -v clang++ >/dev/null ||
  { echo "run_fuzz.sh: clang++ is missing: apt-get install clang" >&2; exit 77; }

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link -DVGPU_WERROR=OFF \
  "-DVGPU_SANITIZE=address;undefined" -DVGPU_FUZZ=ON >"$root/build/fuzz.log" ||
  { cat "$root/build/fuzz.log" >&2; exit 1; }
ninja -C "$build" "${targets[@]/#/fuzz_}"

mkdir -p "$build/found"
failed=0
for target in "${targets[@]}"; do
  learnt=$build/corpus/$target
  mkdir -p "$learnt"
  echo "== $target, $seconds s"
  "$build/tests/fuzz_$target" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/found/$target-" \
    "$learnt" "$here/corpus/$target" >"$build/found/$target.log" 2>&1 || {
    failed=1
    grep -E 'ERROR|SUMMARY|Test unit written' "$build/found/$target.log" ||
      tail -n 20 "$build/found/$target.log"
  }
  grep -E 'number_of_executed_units|new_units_added' \
    "$build/found/$target.log" || true
done
exit $failed
