#!/usr/bin/env bash
# Measures how long a program waits when its node is killed after runs of
# different lengths, with the whole journal to replay, and with snapshots.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: recovery_bench.sh [--build DIR] [--json FILE] [--svg FILE] [--runs N]
                   [--lines N] [--every TIME] [--times LIST] [--tolerance F]

  --build DIR    the build folder (build/default)
  --json FILE    where the numbers go (DIR/recovery.json)
  --svg FILE     where a picture of them goes (none)
  --runs N       how often each is measured with snapshots (9); with the
                 journal alone, which takes long, every third time
  --lines N      lines of heat, 10 launches each, before the shortest run's
                 node is killed (60)
  --every TIME   between two snapshots (100ms)
  --times LIST   and so many times as many lines ("1 2 5 10")
  --tolerance F  the limit is missed when it is exceeded by this factor (1)

Ends with 1 when with snapshots the median of the longest run is more than 20 %
from that of the shortest.
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build/default
json='' svg='' runs=9 lines=60 every=100ms times='1 2 5 10' tolerance=1
source "$here/bench_options.sh"
read_options "build json svg runs lines every times tolerance" "" "$@"
is_count "$runs" && is_count "$lines" && is_number "$tolerance" &&
  [[ $times =~ ^[0-9\ ]+$ ]] || bad_usage
json=${json:-$build/recovery.json}
draw=$build/bin/plot_lines
need ${svg:+"$draw"}

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-bench.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

measure() { # PROTECTION LINES
  "$here/failover_bench.sh" --build "$build" --runs 1 --lines "$2" -- \
    --protect "$1" --snapshot-every "$every" >"$work/one"
  jq -c --arg protection "$1" --argjson launches $(($2 * 10)) \
    '. + {$protection, $launches}' "$work/one" >>"$work/all"
}

for ((run = 0; run < runs; ++run)); do
  for factor in $times; do
    ((run % 3)) || measure journal $((lines * factor))
    measure snapshot $((lines * factor))
  done
done

jq -s --argjson tolerance "$tolerance" --arg every "$every" '
  def median: sort | if length % 2 == 1 then .[length / 2 | floor]
    else (.[length / 2 - 1] + .[length / 2]) / 2 end;
  . as $all
  | [group_by([.protection, .launches])[]
     | {protection: .[0].protection, launches: .[0].launches,
        new_result: (map(.new_result) | median),
        new_results: map(.new_result),
        detected: (map(.detected) | median),
        replaced: (map(.replaced) | median),
        replayed: (map(.replayed) | median),
        calls: (map(.calls) | median), bytes: (map(.bytes) | median)}]
  | (map(select(.protection == "snapshot"))
     | (last.new_result / first.new_result - 1)) as $growth
  | {rows: ., runs: ($all | length), every: $every, growth: $growth,
     met: ($growth >= -0.2 * $tolerance and $growth <= 0.2 * $tolerance)}' \
  "$work/all" >"$json"

jq -r "$columns"'
  "                     after the kill, ms: medians             replayed",
  "protection launches  detected placed replayed new result   calls      MB",
  (.rows[] | (.protection | pad(11)) + (.launches | left(8))
    + (.detected | left(10)) + (.replaced | left(7)) + (.replayed | left(9))
    + (.new_result | left(11)) + (.calls | left(8))
    + (.bytes / 1e5 | round / 10 | left(8))),
  "with snapshots, the longest run beside the shortest: "
    + "\(if .growth < 0 then "" else "+" end)\(.growth * 1000 | round / 10) %"
    + (if .met then "" else ", MISSED: 20 % are the most" end)' "$json"
echo "written to $json"
if [[ -n $svg ]]; then
  jq '{title: "From a node'"'"'s death to the first new result",
       x: "launches before the node was killed", y: "milliseconds",
       lines: [(.rows | group_by(.protection))[]
         | {name: (if .[0].protection == "journal" then "journal alone"
                   else "snapshots each " + $every end),
            points: map([.launches, .new_result])}]}' \
    --arg every "$every" "$json" | "$draw" >"$svg"
  echo "drawn to $svg"
fi
jq -e '.met' "$json" >/dev/null || exit 1
