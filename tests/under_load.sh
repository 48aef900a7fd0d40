#!/usr/bin/env bash
# Runs the suite on a machine that has other work to do, or on one processor. How
# fast a machine is must decide nothing.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tests/under_load.sh [--rounds N] [--load N] [--one-processor]
                           [--only REGEX] [--build DIR] [--dry-run]

Runs the tests of a build without repetition while stress-ng keeps the machine
busy, and says in its last line how many rounds passed. The build must be there:
see tests/run.sh. Tests labelled `long` and `bench` are left out.

  --rounds N        so many rounds, one after the other (3)
  --load N          so many `stress-ng --cpu 2 --vm 1 --hdd 1` beside them (2).
                    With 0, none
  --one-processor   the tests and what they start have the first processor that
                    this script may use, alone (taskset). Without --load and
                    --rounds: no load, and one round
  --only REGEX      only the tests whose name matches
  --build DIR       the build folder (build/default)
  --dry-run         tells what it would run

Needs stress-ng (Debian's package), and taskset (util-linux). Exit status: 0 if
all rounds passed, 1 if not, 2 for a wrong option or what is missing.

Examples:
  tests/under_load.sh
  tests/under_load.sh --one-processor
  tests/under_load.sh --rounds 20 --only '^e2e\.quota'
USAGE
}

rounds='' load='' one=false only='' build=build/default dry=false
wrong() {
  echo "under_load.sh: $*" >&2
  exit 2
}
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --one-processor) one=true ;;
    --dry-run) dry=true ;;
    --rounds | --load | --only | --build)
      (($# >= 2)) || wrong "$1 needs a value"
      case $1 in
        --rounds) rounds=$2 ;;
        --load) load=$2 ;;
        --only) only=$2 ;;
        --build) build=$2 ;;
      esac
      shift
      ;;
    *) usage >&2; wrong "no such option: $1" ;;
  esac
  shift
done
if $one; then rounds=${rounds:-1} load=${load:-0}; fi
rounds=${rounds:-3} load=${load:-2}
[[ $rounds =~ ^[1-9][0-9]{0,3}$ ]] || wrong "--rounds '$rounds': give 1 to 9999"
[[ $load =~ ^[0-9]{1,2}$ ]] || wrong "--load '$load': give 0 to 99"

cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ -f $build/CTestTestfile.cmake ]] ||
  wrong "no tests in $build: build them first, see tests/run.sh --help"
((load == 0)) || command -v stress-ng >/dev/null ||
  wrong "stress-ng is missing; as root, run: apt-get install stress-ng"
for name in "${!VGPU_@}"; do unset "$name"; done

command=(ctest --test-dir "$build" --parallel 2 --output-on-failure
  --no-tests=error -LE '^(long|bench)$')
[[ -z $only ]] || command+=(-R "$only")
if $one; then
  allowed=$(taskset -cp $$)
  allowed=${allowed##*: }
  command=(taskset -c "${allowed%%[,-]*}" "${command[@]}")
fi
stress=(stress-ng --quiet --cpu 2 --vm 1 --vm-bytes 256M --hdd 1
  --hdd-bytes 256M)
if $dry; then
  for ((i = 0; i < load; ++i)); do echo "${stress[*]} &"; done
  echo "${command[*]}"
  exit
fi

loads=() scratch=
end_load() {
  ((${#loads[@]} == 0)) || kill "${loads[@]}" 2>/dev/null || true
  wait
  [[ -z $scratch ]] || rm -rf -- "$scratch"
}
trap end_load EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if ((load > 0)); then scratch=$(mktemp -d); fi
for ((i = 0; i < load; ++i)); do
  "${stress[@]}" --temp-path "$scratch" </dev/null >/dev/null 2>&1 &
  loads+=($!)
done

passed=0
for ((round = 1; round <= rounds; ++round)); do
  echo "== round $round of $rounds, beside $load times stress-ng"
  began=$SECONDS
  if "${command[@]}" </dev/null; then passed=$((passed + 1)); fi
  for pid in "${loads[@]}"; do
    kill -0 "$pid" 2>/dev/null || wrong "expected load all the time, saw it end"
  done
  echo "round $round took $((SECONDS - began)) s"
done
echo "expected $rounds rounds to pass, saw $passed"
((passed == rounds))
