#!/usr/bin/env bash
# Prints a table of what programs on one GPU get, compared with what they were
# promised.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: shares_bench.sh [--build DIR] [--device cpu|nvidia] [--seconds N] [--only REGEX]
                 [--rounds N] [--pairs N] [--some]

  --build DIR    the build folder (build/default), with the targets vgpu,
                 vgpu-manager, vgpu-node, vgpu-worker, vgpu-client, cuda,
                 e2e_load, e2e_guest and example_heat
  --device NAME  what the GPU is (cpu)
  --seconds N    how long each row is measured, with turns and without (10)
  --only REGEX   only rows whose name matches
  --rounds N     measures each row so often, a line each time (1)
  --pairs N      takes `turns / none` from so many pairs of N seconds, with turns
                 and without, one after the other (1): what is done on a host
                 with other work differs from one time to the next
  --some         below a row what some of its programs get done without turns
                 while the others stand still, in units of what each does alone:
                 who lets them in by turns, whichever together, comes to a mean
                 of these

Columns: `worst` is the largest difference from a promise in any window of 2 s,
in percentage points of the device; `of all` the same in those of what all got;
`Jain` Jain's index of what each got, the least of any window of 2 s; `least`
what the worst-off program got beside its promise, where 1 is all of it; `all`
what all programs got done, in units of what one of its kind gets done alone;
`turns / none` that, beside what they got without turns: the mean of all pairs
and, of several, its standard error; the last one what each got of the device's time, beside what it was to get. That
is its share of what all got, or what it can use, if that is less: then the
others get the rest. What it can use is what it uses alone and, beside programs
of other kinds, no more than when it goes first and all others wait for it (by the
policy `priority`): what it does outside of the device takes longer beside them.
That is measured before and after, as its host is faster at one time than at
another: the lesser counts, but no less than what it got.
With a limit, or a fixed share, it is a part of the device.
The cpu device has one half of the processors for itself and its node, and the
programs and their client have the other one.
Needs a machine that has nothing else to do.
USAGE
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../../build/default device=cpu seconds=10 only=. rounds=1 pairs=1
some=
source "$here/bench_options.sh"
read_options "build device seconds only rounds pairs" "some" "$@"
[[ $device =~ ^(cpu|nvidia)$ ]] && is_count "$seconds" && is_count "$rounds" &&
  is_count "$pairs" || bad_usage
export E2E_DEVICE=$device
source "$here/../e2e/lib.sh"
begin "$build"
source "$here/../e2e/shares_programs.sh"
between_programs
device_apart

policy() { expect 0 "$vgpu" policy a/0 "$@"; }

declare -A alone_rate alone_demand
alone_of() { # KIND: sets rate and demand
  if [[ -z ${alone_rate[$1]-} ]]; then
    policy best-effort
    measure_alone "$1" $((seconds / 2 + 1))
    alone_rate[$1]=$rate alone_demand[$1]=$demand
  fi
  rate=${alone_rate[$1]} demand=${alone_demand[$1]}
}

line() {
  printf '| %-26s | %-9s | %6s | %6s | %6s | %6s | %6s | %12s | %s\n' "$@"
}

# Measures one row: the programs under a policy, and then without turns.
row() { # NAME POLICY all|alone "SHARE..." "KIND OPTION..."...
  local name=$1 what alone=() demands=() kinds= round
  [[ $name =~ $only ]] || return 0
  for what in "${@:5}"; do
    alone_of "${what%% *}"
    alone+=("$rate") demands+=("$demand")
    [[ " $kinds " == *" ${what%% *} "* ]] || kinds+=" ${what%% *}"
  done
  start_programs "${@:5}"
  for ((round = 0; round < rounds; ++round)); do
    row_once "${@:1:4}"
  done
  [[ -z $some ]] || below_row "${@:5}"
  stop_programs
}

row_once() { # NAME POLICY all|alone "SHARE..."; alone, demands and kinds are set
  local name=$1 rule=$2 of=$3 claims=$4 reaches=() figures got
  if [[ $of == alone || $rule == priority || $kinds != *' '*' '* ]]; then
    policy "$rule"
    measure_for "$seconds" "$of" "$claims" "${alone[*]}" "${demands[*]}"
  else
    reaches_of $((seconds / 2 + 1)) "${alone[@]}"
    policy "$rule"
    measure_for "$seconds" "$of" "$claims"
    reaches_of $((seconds / 2 + 1)) "${alone[@]}"
    measure_again "$of" "$claims" "${alone[*]}" "${demands[*]}" "${reaches[*]}"
  fi
  figures=("$name" "$rule" "$of_device" "$worst" "$jain" "$least" "$total")
  got="${shares// /, } of ${promised// /, }"
  beside_no_turns "$rule" "$of" "$claims"
  line "${figures[@]}" "$beside" "$got"
}

# Compares the total work with turns, measured just before, with that without
# turns. Sets beside.
beside_no_turns() { # POLICY all|alone "SHARE..."; alone and demands are set
  local pair totals=("$total")
  for ((pair = 0; pair < pairs; ++pair)); do
    if ((pair > 0)); then
      policy "$1"
      measure_for "$seconds" "${@:2}" "${alone[*]}" "${demands[*]}"
      totals+=("$total")
    fi
    policy best-effort
    measure_for "$seconds" "${@:2}" "${alone[*]}" "${demands[*]}"
    totals+=("$total")
  done
  # In a ratio of means, slow times with and without turns count the same.
  beside=$(printf '%s %s\n' "${totals[@]}" | awk '
    { with[NR] = $1; without[NR] = $2; a += $1; b += $2 }
    END {
      ratio = a / b
      for (i = 1; i <= NR; ++i) off += (with[i] - ratio * without[i]) ^ 2
      printf "%.3f", ratio
      if (NR > 1) printf " ±%.3f", sqrt(off / (NR - 1) / NR) / (b / NR)
    }')
}

below_row() { # "KIND OPTION..."...
  local set i some_of names seen=' '
  for ((set = 1; set < 1 << $#; ++set)); do
    some_of=() names=
    for ((i = 0; i < $#; ++i)); do
      ((set >> i & 1)) || continue
      some_of+=("$i")
      names+="${names:+, }${*:i+1:1}"
    done
    # Several programs of one kind are equivalent, so one is enough.
    [[ $seen != *" $names "* ]] || continue
    seen+="$names "
    measure_concurrent "$seconds" "${alone[*]}" "${some_of[@]}"
    echo "  $names: $together"
  done
}

# Measures a program with a limit that runs alone.
limited() { # KIND
  row "limit 0.25: $1" guarantee alone 0.25 "$1 --limit 0.25"
}

cluster_up --nodes 1 --gpus-per-node 1 --memory 1GiB
echo "device $device, $("${to_start[@]}" nproc) of $(nproc --all) cores," \
  "$seconds s a row; load $(cut -d' ' -f1-3 /proc/loadavg)"
line programs policy worst 'of all' Jain least all 'turns / none' \
  'got of promised'
line --- --- --- --- --- --- --- --- ---
half="0.5 0.5" quarter="0.25 0.25 0.25 0.25"
eighth="0.125 0.125 0.125 0.125 0.125 0.125 0.125 0.125"
row '4 kernel' equal all "$quarter" kernel kernel kernel kernel
row '8 kernel' equal all "$eighth" kernel kernel kernel kernel \
  kernel kernel kernel kernel
row '2 huge, 2 kernel' equal all "$quarter" huge huge kernel kernel
row '4 tiny' equal all "$quarter" tiny tiny tiny tiny
row '4 copy' equal all "$quarter" copy copy copy copy
row '4 mixed' equal all "$quarter" mixed mixed mixed mixed
row 'kernel, tiny' equal all "$half" kernel tiny
row 'kernel, copy' equal all "$half" kernel copy
row 'kernel, huge, copy, tiny' equal all "$quarter" kernel huge copy tiny
row '3 kernel' guarantee all '0.5 0.3 0.2' 'kernel --share 0.5' \
  'kernel --share 0.3' 'kernel --share 0.2'
row '2 kernel' guarantee all '0.8 0.2' 'kernel --share 0.8' 'kernel --share 0.2'
row 'huge, kernel' guarantee all '0.3 0.7' 'huge --share 0.3' \
  'kernel --share 0.7'
row 'graph, ex' guarantee all '0.7 0.3' 'graph --share 0.7' 'ex --share 0.3'
row '3 kernel' fixed alone '0.4 0.3 0.2' 'kernel --share 0.4' \
  'kernel --share 0.3' 'kernel --share 0.2'
row '3 kernel, half of it' fixed alone '0.25 0.15 0.1' 'kernel --share 0.25' \
  'kernel --share 0.15' 'kernel --share 0.1'
# The first program gets all that it can use, and the other one the rest.
row 'kernel, copy first' priority all '0.0001 0.9999' kernel 'copy --priority 1'
for kind in kernel ex graph huge tiny copy mixed; do limited "$kind"; done
cluster_down
