#!/usr/bin/env bash
# Runs programs natively and on a vGPU, and compares them, on a machine with an
# NVIDIA GPU. Needs bash, awk, tar and xz, but no compiler. If python3 has
# PyTorch, JAX, CuPy or Transformers, runs their workloads too.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: run_gpu.sh [OPTION...] BUNDLE

Runs each program of the folder that this script lies in (as unpacked from
vgpu-gpu-tests.tar.xz) natively and on a vGPU, with the log mapped by the worker
and forwarded to it over TCP on loopback, and prints one table: time on the
vGPU, natively, the ratio, and whether output and exit code are the same. Tells
on stderr what has run; stopped, it prints the table of that.

  BUNDLE         vgpu-bundle.tar.xz, or the folder that it was unpacked to
  --json FILE    the numbers, as JSON
  --transport T  mapped or forwarded alone
  --logs DIR     where outputs and the cluster's logs are kept
  --only REGEX   only the programs and workloads whose name matches
  --calls-only   only what single calls cost
  --pytorch-only only PyTorch's workloads
  --no-calls     all but what single calls cost
  --no-pytorch   all but PyTorch's workloads
  --libraries DIRS  where NVIDIA's libraries lie (what Python's packages have,
                 and /usr/local/cuda/lib64)
  --gpus N       vGPUs for each workload of PyTorch (1)
  --limit SEC    a program that takes longer has failed (120)
Ends with 1 when a result is not the same.
USAGE
}

source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
json='' logs='' only=. transport='' limit=120 gpus=1
calls_only='' pytorch_only='' no_calls='' no_pytorch=''
libraries=
read_options "json transport logs only gpus limit libraries" \
  "calls-only pytorch-only no-calls no-pytorch" "$@"
calls=true programs=true pytorch=true
[[ -z $calls_only ]] || programs=false pytorch=false
[[ -z $pytorch_only ]] || programs=false calls=false
[[ -z $no_calls ]] || calls=false
[[ -z $no_pytorch ]] || pytorch=false
transports=(mapped forwarded)
[[ -z $transport ]] || transports=("$transport")

open_bundle
logs=${logs:-$work/logs}
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)

# Runs a program in one mode, and writes the seconds and the exit code to a
# file.
run_one() { # MODE NAME COMMAND...
  local mode=$1 name=$2 code=0 begin end runner=()
  shift 2
  local place=$logs/$mode
  mkdir -p "$place/$name.dir"
  [[ $mode == native ]] ||
    runner=(env "VGPU_MANAGER=ipc://$work/$mode/manager.sock"
      "VGPU_TRANSPORT=$mode" "$vgpu" run --gpus "$gpus" --)
  begin=$(date +%s%N)
  (cd "$place/$name.dir" &&
    timeout --kill-after=5 "$limit" "${runner[@]}" "$@") >"$place/$name.out" \
    2>"$place/$name.err" </dev/null || code=$?
  end=$(date +%s%N)
  echo "$((end - begin)) $code" >"$place/$name.time"
  echo "run_gpu.sh: $name $mode: $(((end - begin) / 1000000)) ms, exit code $code" >&2
}

programs_here=()
if $programs; then
  for program in "$here"/cuda/* "$here"/examples/* "$here"/driver_truth; do
    [[ -x $program && $(basename "$program") =~ $only ]] &&
      programs_here+=("$program")
  done
fi

# Programs that use NVIDIA's libraries.
library_programs=()
if $programs; then
  packages=$(python3 -c 'import glob, nvidia
print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))' 2>/dev/null) ||
    true
  libraries=${libraries:-$packages:/usr/local/cuda/lib64}
  for program in "$here"/libraries/*; do
    name=$(basename "$program")
    [[ -x $program && libraries_$name =~ $only ]] || continue
    if LD_LIBRARY_PATH=$libraries ldd "$program" |
      grep 'not found' >/dev/null; then
      echo "run_gpu.sh: skipped: libraries_$name (no library of it)" >&2
    else
      library_programs+=("$program")
    fi
  done
fi

# Scripts for other projects' Python modules, by the module's name.
judges=()
if $programs; then
  for script in "$here"/judges/*.py; do
    name=$(basename "$script" .py)
    [[ -f $script && $name =~ $only ]] || continue
    if python3 -c "import ${name%%_*}" 2>/dev/null; then
      judges+=("$script")
    else
      echo "run_gpu.sh: skipped: $name (python3 has no ${name%%_*})" >&2
    fi
  done
fi

workloads=()
if $pytorch && ! python3 -c 'import torch' 2>/dev/null; then
  echo "run_gpu.sh: skipped: PyTorch's workloads (python3 has no torch)" >&2
  pytorch=false
fi
if $pytorch; then
  for name in $(python3 "$here/pytorch/run.py" --list); do
    [[ $name =~ $only ]] && workloads+=("$name")
  done
fi

# The results as lines `KIND NAME...`: one for each program and transport, and
# for each call and transport.
results=$work/results
: >"$results"
compare() { # NAME IF-ONLY-THE-CODE-IS-THE-SAME
  local native native_code ours code same transport
  read -r native native_code <"$logs/native/$1.time"
  for transport in "${transports[@]}"; do
    read -r ours code <"$logs/$transport/$1.time"
    same=no
    if [[ $code == "$native_code" ]]; then
      same=yes
      cmp -s "$logs/native/$1.out" "$logs/$transport/$1.out" || same=$2
    fi
    echo "program $1 $transport $ours $native ns $same" >>"$results"
  done
}
compare_calls() { # LINES-FILE
  local transport
  for transport in "${transports[@]}"; do
    [[ -s $logs/native/$1 && -s $logs/$transport/$1 ]] || continue
    awk -v transport="$transport" '
      NR == FNR { native[$1] = $2; next }
      $1 in native {
        print "call", $1, transport, $2, native[$1], $3, "-"
      }' "$logs/native/$1" "$logs/$transport/$1" >>"$results"
  done
}
# Runs a command in every mode, one after the other.
run_everywhere() { # NAME COMMAND...
  local mode
  for mode in native "${transports[@]}"; do
    run_one "$mode" "$@"
  done
}

# Prints the table of finished runs, also when the script is stopped.
print_table() { awk -v json="$json" -f "$here/table.awk" "$results"; }
trap 'print_table; exit 130' INT TERM

for transport in "${transports[@]}"; do
  mkdir -m 700 "$work/$transport"
  clusters+=("$work/$transport")
  "$vgpu" up --nodes 1 --device nvidia --bind 127.0.0.1 \
    --run-dir "$work/$transport" </dev/null >"$logs/up-$transport.log" 2>&1 || {
    cat "$logs/up-$transport.log" >&2
    cp "$work/$transport"/*.log "$logs" 2>/dev/null || true
    die "the cluster does not come up"
  }
done
for name in "${workloads[@]}"; do
  run_everywhere "$name" python3 "$here/pytorch/run.py" \
    --times "../$name.calls" "$name"
  compare "$name" no # their text is all result
  compare_calls "$name.calls"
done
for program in "${programs_here[@]}"; do
  run_everywhere "$(basename "$program")" "$program"
  compare "$(basename "$program")" code # their text may be times, addresses
done
for program in "${library_programs[@]}"; do
  name=libraries_$(basename "$program")
  LD_LIBRARY_PATH=$libraries run_everywhere "$name" "$program"
  compare "$name" code # how far off each result is
done
for script in "${judges[@]}"; do
  name=$(basename "$script" .py)
  run_everywhere "$name" python3 "$script"
  compare "$name" no
done
if $calls; then
  run_everywhere calls "$here/calls"
  compare_calls calls.out
  for transport in "${transports[@]}"; do
    read -r _ code <"$logs/$transport/calls.time"
    ((code == 0)) || echo "program calls $transport 0 0 ns no" >>"$results"
  done
fi
for transport in "${transports[@]}"; do
  for log in "$work/$transport"/*.log; do
    cp "$log" "$logs/$transport-$(basename "$log")" 2>/dev/null || true
  done
done
print_table
! grep -q ' no$' "$results"
