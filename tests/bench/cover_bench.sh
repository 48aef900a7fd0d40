#!/usr/bin/env bash
# Measures what it costs a program that reads often when each result waits for a
# snapshot (--on-divergence snapshot), compared with --on-divergence continue,
# by turns.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: cover_bench.sh [--build DIR] [--json FILE] [--rounds N] [--reads N]

  --build DIR  the build folder (build/default)
  --json FILE  where the numbers go (DIR/cover.json)
  --rounds N   how often each setting runs, by turns (5)
  --reads N    reads in each run, of which the second half is measured (200)

A read stands behind two kernels, and half of them also behind a host function
and a copy from pinned memory. The program has memory that it wrote once, and
memory that it writes before each read, in MiB. The figures are medians of the
runs' medians.
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build/default json='' rounds=5 reads=200
source "$here/bench_options.sh"
read_options "build json rounds reads" "" "$@"
is_count "$rounds" && is_count "$reads" || bad_usage
json=${json:-$build/cover.json}
vgpu=$build/bin/vgpu guest=$build/tests/e2e/guest
need "$vgpu" "$guest"

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-bench.XXXXXX")
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  local transport
  for transport in mapped forwarded; do
    [[ ! -d $work/$transport ]] || "$vgpu" down --run-dir "$work/$transport" \
      </dev/null >/dev/null 2>&1 || true
  done
  rm -rf -- "$work"
}
trap clean_up EXIT

run_once() { # TRANSPORT KEPT WRITTEN SETTING
  VGPU_MANAGER=ipc://$work/$1/manager.sock VGPU_TRANSPORT=$1 \
    "$vgpu" run --on-divergence "$4" -- "$guest" digest $((reads / 4)) 0 "$2" \
    "$3" </dev/null >/dev/null 2>"$work/result" ||
    die "the program failed, log $1, on-divergence $4: $(<"$work/result")"
  jq -cn --arg transport "$1" --argjson kept "$2" --argjson written "$3" \
    --arg setting "$4" \
    --argjson ms "$(sed -n 's/ ms a read$//p' "$work/result")" \
    '{$transport, $kept, $written, $setting, $ms}' >>"$work/samples"
}

for transport in mapped forwarded; do
  mkdir -m 700 "$work/$transport"
  VGPU_TRANSPORT=$transport "$vgpu" up --nodes 1 --run-dir "$work/$transport" \
    --device cpu </dev/null >"$work/up.log" 2>&1 ||
    { cat "$work/up.log" >&2; die "vgpu up failed"; }
done
: >"$work/samples"
for ((round = 0; round < rounds; ++round)); do
  for transport in mapped forwarded; do
    for memory in '0 0' '256 0' '256 16'; do
      read -r kept written <<<"$memory"
      run_once "$transport" "$kept" "$written" continue
      run_once "$transport" "$kept" "$written" snapshot
    done
  done
done

jq -s '
  def middle: sort | .[length / 2 | floor];
  group_by([.transport, .kept, .written])
  | map(. as $runs
    | def of($setting): [$runs[] | select(.setting == $setting) | .ms] | middle;
      .[0] | {transport, kept, written, continue: of("continue"),
              snapshot: of("snapshot")}
      | .ratio = (.snapshot / .continue * 10 | round / 10))' \
  "$work/samples" >"$json"
jq -r "$columns"'
  "log        written once  before each read  continue  snapshot  ratio",
  (.[] | (.transport | pad(11)) + ("\(.kept) MiB" | left(12))
    + ("\(.written) MiB" | left(18)) + ("\(.continue) ms" | left(10))
    + ("\(.snapshot) ms" | left(10)) + (.ratio | left(7)))' "$json"
echo "written to $json"
