#!/usr/bin/env bash
# Everything that our driver is judged by, run on the real one: what fails
# here is wrong in the tests. Needs nvcc, g++, bash and a GPU; no CMake.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: native.sh [--build-only] [--only REGEX] [OUT]

Builds and runs the truth test, the programs of tests/cuda and the examples
with the libcuda.so.1 of this machine. Programs and logs go to OUT (default: a
new folder in $TMPDIR). The last line is `N passed, N failed`.

  --build-only  stops after building
  --only REGEX  only the programs whose name matches
EOF
}

build_only=false only=. out=
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --build-only) build_only=true ;;
    --only) only=${2:?--only needs a regular expression}; shift ;;
    -*) echo "native.sh: no such option: $1" >&2; usage >&2; exit 2 ;;
    *) out=$1 ;;
  esac
  shift
done
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${out:-$(mktemp -d "${TMPDIR:-/tmp}/vgpu-native.XXXXXX")}
mkdir -p "$out"
out=$(cd "$out" && pwd)
PATH=$PATH:/usr/local/cuda/bin
nvcc=$(command -v nvcc) || {
  echo "native.sh: no nvcc in PATH or in /usr/local/cuda/bin" >&2
  exit 1
}
cuda=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
export nvcc cuda out root

build_program() { # SOURCE...
  local name options
  name=$(basename "$1" .cu)
  options=$(sed -n 's|^// nvcc: ||p' "$1")
  # shellcheck disable=SC2086 # options are words
  "$nvcc" -o "$out/$name" "$@" $options >"$out/$name.build.log" 2>&1 ||
    echo "$name" >>"$out/not_built"
}
build_truth() {
  g++ -std=c++20 -O1 -isystem "$cuda/include" "$root"/tests/truth/*.cpp \
    -L"$cuda/lib64/stubs" -lcuda -pthread -o "$out/truth" \
    >"$out/truth.build.log" 2>&1 || echo truth >>"$out/not_built"
}
export -f build_program build_truth

rm -f "$out/not_built"
names=(truth)
jobs=(build_truth)
for source in "$root"/tests/cuda/*/*.cu "$root"/examples/*/*.cu; do
  name=$(basename "$source" .cu)
  case $name in
    *_part) continue ;;
    separate_compilation)
      jobs+=("build_program '$source' '${source%.cu}_part.cu'") ;;
    mandelbrot)
      if ! printf '#include <png.h>' | g++ -E - >/dev/null 2>&1; then
        echo "skip   mandelbrot (no png.h)"
        continue
      fi
      jobs+=("build_program '$source'") ;;
    *) jobs+=("build_program '$source'") ;;
  esac
  names+=("$name")
done
chosen=() chosen_jobs=()
for i in "${!names[@]}"; do
  if [[ ${names[i]} =~ $only ]]; then
    chosen+=("${names[i]}")
    chosen_jobs+=("${jobs[i]}")
  fi
done
if ((${#chosen[@]} == 0)); then
  echo "native.sh: no program matches '$only'" >&2
  exit 2
fi
printf '%s\0' "${chosen_jobs[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c '{}'

passed=0 failed=0
for name in "${chosen[@]}"; do
  if [[ -f $out/not_built ]] && grep -qx "$name" "$out/not_built"; then
    echo "FAIL   $name (does not build)"
    cat "$out/$name.build.log"
    failed=$((failed + 1))
    continue
  fi
  if $build_only; then
    passed=$((passed + 1))
    continue
  fi
  command=("$out/$name")
  [[ $name == truth ]] && command+=(--all)
  code=0
  (cd "$out" && timeout 300 "${command[@]}") >"$out/$name.log" 2>&1 \
    </dev/null || code=$?
  if ((code == 0)); then
    echo "pass   $name: $(tail -n 1 "$out/$name.log")"
    passed=$((passed + 1))
  else
    echo "FAIL   $name (exit code $code)"
    grep -v '^agrees' "$out/$name.log" | tail -n 100 | sed 's/^/    /' || true
    failed=$((failed + 1))
  fi
done
echo "logs in $out"
echo "$passed passed, $failed failed"
((failed == 0))
