#!/usr/bin/env bash
# Measures the cost of protection for a program that launches and one that
# copies, each without protection, with a journal, and with snapshots, in turns.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: protection_bench.sh [--build DIR] [--json FILE] [--rounds N] [--slices N]
                     [--every SECONDS] [--state MIB] [--only WORDS]
                     [--tolerance F]

  --build DIR      the build folder (build/default)
  --json FILE      where the numbers go (DIR/protection.json)
  --rounds N       how often each runs, by turns (5)
  --slices N       slices of two seconds that each run has (4)
  --every SECONDS  between two snapshots (1)
  --state MIB      memory of the program that it wrote once (256)
  --only WORDS     of launch, copy, mapped and forwarded, those alone
  --tolerance F    a limit is missed when it is exceeded by this factor (1)

A cost is how much longer a unit of work takes than without protection, each in
the median of all its slices: in the quietest, which says least of what others do
on the machine, there may be no snapshot, and no memory that was never used.
That of snapshots is measured with more of them than anybody wants, so that each
slice has some; of what they cost more than the journal alone, a snapshot each
10 s costs so much less as it is rarer.
Ends with 1 when a journal costs more than 3 %, or a snapshot each 10 s more
than 10 %.
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$here/../.." && pwd)/build/default
json='' rounds=5 slices=4 every=1 state=256
only='launch copy mapped forwarded' tolerance=1
source "$here/bench_options.sh"
read_options "build json rounds slices every state only tolerance" "" "$@"
for number in "$rounds" "$slices" "$every" "$state"; do
  is_count "$number" || bad_usage
done
is_number "$tolerance" || bad_usage
json=${json:-$build/protection.json}
vgpu=$build/bin/vgpu bench=$build/bin/vgpu_bench
need "$vgpu" "$bench"

# Prints the selected ones of the words, or all if none is selected.
wanted() { # WORD...
  local word found=()
  for word in "$@"; do
    [[ " $only " != *" $word "* ]] || found+=("$word")
  done
  echo "${found[@]:-$*}"
}
read -ra programs <<<"$(wanted launch copy)"
read -ra transports <<<"$(wanted mapped forwarded)"
levels=(none journal snapshot)

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-bench.XXXXXX")
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  local transport
  for transport in "${transports[@]}"; do
    [[ ! -d $work/$transport ]] || "$vgpu" down --run-dir "$work/$transport" \
      </dev/null >/dev/null 2>&1 || true
  done
  rm -rf -- "$work"
}
trap clean_up EXIT

start_cluster() { # TRANSPORT
  mkdir -m 700 "$work/$1"
  VGPU_TRANSPORT=$1 "$vgpu" up --nodes 1 --run-dir "$work/$1" --device cpu \
    </dev/null >"$work/up.log" 2>&1 ||
    { cat "$work/up.log" >&2; die "vgpu up failed"; }
}

run_once() { # PROGRAM TRANSPORT LEVEL
  VGPU_MANAGER=ipc://$work/$2/manager.sock VGPU_TRANSPORT=$2 \
    "$vgpu" run --protect "$3" --snapshot-every "${every}s" -- \
    "$bench" --steady "$1" "$slices" "$state" </dev/null >"$work/result" ||
    die "the program that does $1 failed, log $2, protection $3"
  jq -c --arg program "$1" --arg transport "$2" --arg level "$3" \
    '{$program, $transport, $level, rates: .}' "$work/result" >>"$work/samples"
}

one_round() { # NUMBER
  local program transport i
  for transport in "${transports[@]}"; do
    for program in "${programs[@]}"; do
      # The first level changes, because the machine's clock and caches may
      # vary.
      for i in 0 1 2; do
        run_once "$program" "$transport" "${levels[(i + $1) % 3]}"
      done
    done
  done
}

snapshots_taken() { # TRANSPORT
  VGPU_MANAGER=ipc://$work/$1/manager.sock "$vgpu" events --json |
    jq -s 'map(select(.kind == "session-snapshot")) | length'
}

for transport in "${transports[@]}"; do start_cluster "$transport"; done
: >"$work/samples"
for ((round = 0; round < rounds; ++round)); do one_round "$round"; done
for transport in "${transports[@]}"; do
  # Without snapshots the measurement has no meaning.
  (($(snapshots_taken "$transport") > 0)) || die "no snapshot was taken"
done

jq -s --argjson tolerance "$tolerance" --argjson every "$every" \
  --argjson state "$state" '
  def percent: . * 1000 | round / 10;
  def cost($than): $than / . - 1;
  . as $all
  | [group_by([.program, .transport])[]
   | .[0] as $x
   | . as $runs
   | def middle($level): [$runs[] | select(.level == $level) | .rates[]]
       | sort | .[length / 2 | floor];
     middle("none") as $none
   | {program: $x.program, transport: $x.transport}
     + ({level: "none", rate: $none, cost: 0},
        {level: "journal", rate: middle("journal"),
         cost: (middle("journal") | cost($none)), limit: 3},
        {level: "snapshots each \($every) s", rate: middle("snapshot"),
         cost: (middle("snapshot") | cost($none))},
        {level: "snapshots each 10 s",
         cost: ((middle("journal") | cost($none)) as $journal
           | $journal + ((middle("snapshot") | cost($none)) - $journal)
             * $every / 10), limit: 10})
     | .cost |= percent
     | .met = (.limit == null or .cost <= .limit * $tolerance)]
  | {rows: ., met: all(.[]; .met), state_mebibytes: $state, runs: $all}' \
  "$work/samples" >"$json"

jq -r "$columns"'
  def rate: if .rate == null then ""
    elif .program == "launch" then "\(.rate / 1000 | round) k launches/s"
    else "\(.rate / 1e7 | round / 100) GB/s" end;
  "program  log        protection                          rate    costs  limit",
  (.rows[] | (.program | pad(9)) + (.transport | pad(11)) + (.level | pad(21))
    + (rate | left(18)) + ("\(.cost) %" | left(9))
    + ((if .limit then "\(.limit) %" else "" end) | left(7))
    + (if .met then "" else "  MISSED" end))' "$json"
echo "written to $json"
jq -e '.met' "$json" >/dev/null || exit 1
