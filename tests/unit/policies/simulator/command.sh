#!/usr/bin/env bash
# Tests the arguments, exit codes and files of `vgpu simulate`.
set -euo pipefail
vgpu=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-simulate.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

expect() { # CODE ARGUMENT...
  local wanted=$1 got=0
  shift
  "$vgpu" simulate "$@" </dev/null >"$work/out" 2>"$work/err" ||
    got=$?
  ((got == wanted)) ||
    fail "vgpu simulate $*: ended with $got, not $wanted: $(<"$work/err")"
}

told() { # REGEX
  grep -qE "$1" "$work/err" || fail "no message matches '$1': $(<"$work/err")"
  (($(wc -l <"$work/err") <= 6)) || fail "a long message: $(<"$work/err")"
}

expect 0 --help
grep -q 'Examples' "$work/out" || fail "no examples"
grep -q 'Exit codes' "$work/out" || fail "no exit codes"

# A generated trace gives the same result when it is read from a file.
small=(--nodes 2 --gpus-per-node 2 --memory 16GiB)
expect 0 --generate --vgpus 300 --seed 7 "${small[@]}" --json \
  --write "$work/trace" --plot "$work/plot.svg"
mv "$work/out" "$work/made"
expect 0 "$work/trace" "${small[@]}" --json
strip='del(.process_memory) | del(.policies[].decisions_per_second)'
diff <(jq "$strip" "$work/made") <(jq "$strip" "$work/out") >&2 ||
  fail "the written trace gives another result"
jq -e '[.policies[].placement] == ["least-loaded", "bin-pack", "spread"] and
  all(.policies[]; .finished == 300 and .utilisation > 0 and
    .fairness <= 1 and .decisions >= 300 and .waiting_seconds.p99 >= 0)' \
  "$work/out" >/dev/null || fail "wrong JSON: $(<"$work/out")"
grep -q '</svg>' "$work/plot.svg" || fail "no SVG"
expect 0 "$work/trace" "${small[@]}" --placement spread,bin-pack
grep -q '^bin-pack ' "$work/out" || fail "no row: $(<"$work/out")"
"$vgpu" simulate - "${small[@]}" <"$work/trace" >"$work/out" ||
  fail "not read from standard input"

# Turns with memory, compared with the same load without.
busy=(--generate --vgpus 300 --rate 0.05 "${small[@]}" --placement spread)
expect 0 "${busy[@]}" --overcommit 3 --swap-part 0.2 --json --plot "$work/plot.svg"
jq -e '[.policies[].overcommit] == [1, 3] and
  .policies[0].preempted == 0 and .policies[0].swapping_part == 0 and
  .policies[1].preempted > 0 and .policies[1].swapping_part > 0 and
  .policies[1].first_waiting_seconds.mean <
    .policies[0].first_waiting_seconds.mean and
  all(.policies[]; .finished == 300)' "$work/out" >/dev/null ||
  fail "wrong turns: $(jq 'del(.policies[].over_time)' "$work/out")"
grep -q 'spread x3' "$work/plot.svg" || fail "no turns in the SVG"
expect 0 "${busy[@]}" --overcommit 3
grep -q '^spread x3 .* %$' "$work/out" || fail "no row: $(<"$work/out")"

# Wrong arguments and files are named.
expect 2
told 'TRACE or --generate'
expect 2 --generate "$work/trace"
expect 1 "$work/none"
told "$work/none.*No such file"
expect 1 "$work"
told "$work.*[Dd]irectory"
echo '{"at": 0, "runs": 1, "share": 7}' >"$work/wrong"
expect 2 "$work/wrong"
told "$work/wrong, line 1: share '7': give more than 0"
head -c 300000 /dev/urandom >"$work/noise"
expect 2 "$work/noise"
told "$work/noise, line 1: "
expect 1 --generate --vgpus 10 --write "$work/no/such"
told "$work/no/such"
expect 1 --generate --vgpus 10 --plot "$work/no/such"
told "$work/no/such"
while read -r option value; do
  expect 2 --generate "$option=$value"
  told "${option#--}"
done <<'EOT'
--nodes 0
--nodes 1000001
--gpus-per-node 0
--vgpus 0
--vgpus 1e99
--memory much
--sizes 2
--rate 0
--rate fast
--run-time -1
--idle 2
--seed x
--placement best
--placement ./no-such.so
--sharing somehow
--balance 0
--copy-rate no
--overcommit 0.5
--overcommit 17
--swap-part 0
EOT
expect 2 --generate --nodes 10000 --gpus-per-node 1000
told 'at most 1000000'
echo done
