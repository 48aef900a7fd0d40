#!/usr/bin/env bash
# Builds everything, runs every test, and says how it went in the last line:
# `N passed, N failed`.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: tests/run.sh [--long] [--bench] [--no-sanitizers] [--only REGEX] [--tidy]
                    [--no-setup] [--jobs N]

Installs what is missing, builds the default preset and runs its tests, runs
the unit tests under the address and undefined-behaviour sanitizers and the
lock-free parts under the thread sanitizer, and checks the formatting.

  --long           the tests labelled `long` as well
  --bench          the measurements as well, which need an otherwise idle machine
  --no-sanitizers  leaves out the asan and tsan presets
  --only REGEX     only the tests whose name matches, in every preset
  --tidy           clang-tidy over the files changed since `main`
  --no-setup       takes for granted that all packages are there
  --jobs N         how many compilers at once (the number of cores)

The last line counts the tests of all presets; a step that fails outside of a
test (a build, the formatting) counts as one more failure. The exit status is
0 if nothing failed.
EOF
}

long=false bench=false sanitizers=true only='' tidy=false setup=true jobs=$(nproc)
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --long) long=true ;;
    --bench) bench=true ;;
    --no-sanitizers) sanitizers=false ;;
    --tidy) tidy=true ;;
    --no-setup) setup=false ;;
    --only | --jobs)
      if (($# < 2)); then
        echo "run.sh: $1 needs a value" >&2
        exit 2
      fi
      if [[ $1 == --only ]]; then only=$2; else jobs=$2; fi
      shift
      ;;
    *) echo "run.sh: no such option: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
# What a shell says of a cluster of its own is not meant for tests.
for name in "${!VGPU_@}"; do unset "$name"; done
passed=0 failed=0

heading() { printf '\n== %s\n' "$*"; }

fail_step() {
  echo "FAILED: $*"
  failed=$((failed + 1))
}

finish() {
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
  ((failed == 0))
}

configure() { # PRESET
  [[ -f build/$1/build.ninja ]] || cmake --preset "$1"
}

# Adds up what ctest wrote. A test that could not be run counts as failed, one
# that skipped itself as neither.
count() { # JUNIT-FILE
  local run notrun skipped fail
  run=$(grep -ac '<testcase .*status="run"' "$1" || true)
  fail=$(grep -ac '<testcase .*status="fail"' "$1" || true)
  notrun=$(grep -ac '<testcase .*status="notrun"' "$1" || true)
  skipped=$(grep -ac '<skipped message="SKIP' "$1" || true)
  passed=$((passed + run))
  failed=$((failed + fail + (notrun > skipped ? notrun - skipped : 0)))
}

run_tests() { # PRESET CTEST-OPTION...
  local preset=$1 results
  shift
  results=$PWD/build/$preset/results.xml
  rm -f "$results"
  # Two at a time: what needs the whole machine says RUN_SERIAL.
  ctest --test-dir "build/$preset" --parallel "${jobs_at_once:-2}" --output-on-failure \
    --no-tests=ignore --output-junit "$results" ${only:+-R "$only"} "$@" || true
  if [[ -f $results ]]; then
    count "$results"
  else
    fail_step "ctest of $preset wrote no results"
  fi
}

# What a preset's chosen tests mention of their build folder: the programs and
# libraries that they need. ctest itself does not tell before they are built.
test_programs() { # PRESET CTEST-OPTION...
  local folder=$PWD/build/$1 names
  shift
  names=$(ctest --test-dir "$folder" --show-only=json-v1 \
    ${only:+-R "$only"} "$@" | jq -r '.tests[] | "([=[\(.name)]=] "') ||
    return
  [[ -n $names ]] || return 0
  find "$folder" -name CTestTestfile.cmake -print0 |
    xargs -0 grep -hF -f <(printf '%s\n' "$names") |
    { grep -oE '"[^"]*"' || true; } | tr '";=' '\n' |
    sed -n "s|^$folder/||p" | sort -u
}

test_default() {
  heading "default: build"
  local programs=()
  configure default || {
    fail_step "the default preset cannot be configured"
    return
  }
  # Of the CUDA programs, `all` has none. The tests build those that they need.
  [[ -n $only ]] || mapfile -t programs < <(ninja -C build/default -t targets all |
    sed -nE 's/^([a-z_]+_programs): phony$/\1/p')
  if ! ninja -C build/default -j "$jobs" all "${programs[@]}"; then
    fail_step "the default preset does not build"
    return
  fi
  heading "default: tests"
  local exclude='^bench$'
  $long || exclude='^(long|bench)$'
  run_tests default -LE "$exclude"
  if $bench; then
    # They measure times, so nothing else runs beside them.
    heading "default: measurements"
    local leave_out=()
    $long || leave_out=(-LE '^long$')
    jobs_at_once=1 run_tests default -L '^bench$' "${leave_out[@]}"
  fi
}

# Only what the chosen tests need is built.
test_sanitized() { # PRESET CTEST-OPTION...
  local preset=$1 programs=() known=()
  heading "$preset: build"
  if ! configure "$preset"; then
    fail_step "the $preset preset cannot be configured"
    return
  fi
  # Configures anew when a CMakeLists.txt changed.
  if ! ninja -C "build/$preset" build.ninja >/dev/null; then
    fail_step "the $preset preset cannot be configured"
    return
  fi
  local list
  if ! list=$(test_programs "$@"); then
    fail_step "the tests of the $preset preset cannot be listed"
    return
  fi
  mapfile -t programs <<<"$list"
  if [[ -z $list ]]; then
    echo "no tests to run"
    return
  fi
  mapfile -t known < <(ninja -C "build/$preset" -t targets all |
    sed -n 's/^\([^:]*\): .*/\1/p' |
    grep -Fxf <(printf '%s\n' "${programs[@]}") | sort -u)
  if ((${#known[@]})) &&
    ! ninja -C "build/$preset" -j "$jobs" "${known[@]}"; then
    fail_step "the $preset preset does not build"
    return
  fi
  heading "$preset: tests"
  run_tests "$@"
}

# Programs that know nothing of the sanitizer load a driver that was compiled
# with it, so its runtime must be there first. Whoever reports something ends,
# and may be replaced like anything that dies: the reports decide.
test_system_with_asan() {
  local reports=$PWD/build/asan/reports programs
  # Of the CUDA programs, `all` has none here.
  mapfile -t programs < <(ninja -C build/asan -t targets all |
    sed -nE 's/^((cuda|example|e2e)_[a-z0-9_]+): phony$/\1/p')
  if ! ninja -C build/asan -j "$jobs" all "${programs[@]}"; then
    fail_step "the asan preset does not build"
    return
  fi
  rm -rf "$reports"
  mkdir -p "$reports"
  (
    export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0:log_path=$reports/asan
    export UBSAN_OPTIONS=print_stacktrace=1:log_path=$reports/ubsan
    LD_PRELOAD=$(c++ -print-file-name=libasan.so)
    run_tests asan -L '^(cuda|examples|truth|e2e)$' -LE '^long$'
    printf '%d %d\n' "$passed" "$failed" >"$reports/counts"
  )
  read -r passed failed <"$reports/counts"
  # Warnings are about what the programs themselves print.
  local found=()
  mapfile -t found < <(grep -lE 'ERROR: |runtime error: ' \
    "$reports"/[au]*san.* 2>/dev/null)
  if ((${#found[@]})); then
    fail_step "the sanitizers report something in $reports"
    head -n 40 "${found[@]}"
  fi
}

check_format() {
  heading "formatting"
  local files=() output
  mapfile -t files < <(git ls-files -- '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.h' \
    '*.c')
  ((${#files[@]})) || return 0
  if ! output=$(printf '%s\0' "${files[@]}" |
    xargs -0 -n 20 -P 2 clang-format --dry-run --Werror 2>&1); then
    fail_step "clang-format -i would change these files"
    # Where the complaints are, without the lines themselves.
    sed -nE 's/^([^ :]+):[0-9]+:[0-9]+: error: .*/  \1/p' <<<"$output" |
      sort -u
    grep -E '^(clang-format|xargs|[^ :]+): ' <<<"$output" || true
  fi
}

check_tidy() {
  heading "clang-tidy"
  local base files=()
  base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  mapfile -t files < <({
    git diff --name-only --diff-filter=d "$base" -- '*.cpp'
    git ls-files --others --exclude-standard -- '*.cpp'
  } | sort -u)
  if ((${#files[@]} == 0)); then
    echo "no changed files"
    return
  fi
  # Where each file has a command of its own.
  if ! cmake --preset dev >/dev/null || ! ninja -C build/dev vgpu_wire; then
    fail_step "there are no commands for clang-tidy"
    return
  fi
  if ! printf '%s\0' "${files[@]}" |
    xargs -0 -n 1 -P 2 clang-tidy --quiet -p build/dev \
      --extra-arg=-Wno-ignored-optimization-argument; then
    fail_step "clang-tidy found something"
  fi
}

if $setup; then
  heading "setup"
  if ! tests/setup.sh; then
    fail_step "something is missing on this machine"
    finish
    exit
  fi
fi
# shellcheck source=toolkit.sh
source tests/toolkit.sh
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/lsan.txt:print_suppressions=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

test_default
if $sanitizers; then
  # What stands by itself; the whole system takes too long for every change.
  test_sanitized asan \
    -LE '^(long|cuda|examples|truth|libraries|e2e)$' -E '^interposer_exports'
  if $long; then test_system_with_asan; fi
  test_sanitized tsan -L '^tsan$'
fi
check_format
if $tidy; then
  check_tidy
fi
finish
