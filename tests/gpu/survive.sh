#!/usr/bin/env bash
# Disturbs programs on an NVIDIA GPU in the middle: PyTorch's workloads, other
# projects' scripts, programs of NVIDIA's libraries and of tests/cuda. Needs
# bash, awk, tar, xz and jq.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: survive.sh [OPTION...] BUNDLE

Runs each program undisturbed on a vGPU, and then once for each disturbance and
transport: its worker or node is killed, its GPU is lost, it is suspended and
resumed, moved to another GPU or another node, or has snapshots as often as
possible before its worker is killed. At which of its driver calls, a seed says.
Its output must be the same, unless its undisturbed runs differ. Each cell is a line of FILE, with the time that the
longest call took; then a table is printed (tests/e2e/matrix.sh says more).

  BUNDLE         vgpu-bundle.tar.xz, or the folder that it was unpacked to
  --json FILE    the cells, as JSON, a line each (survive.json); those that it
                 has already are not run again
  --only REGEX   only the cells whose names match: pytorch/cufft/worker/mapped
  --jobs N       so many programs at the same time (4)
  --seed N       the seed (1)
  --limit SEC    after how long a program has failed (150)
  --list         prints the cells, and runs none
Ends with 1 when an output of FILE is not the same, and 2 when a cell could not
be run.
Stopped, it prints the table of what has run.
USAGE
}

source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
json=survive.json only=. jobs=4 seed=1 limit=150 list=
read_options "json only jobs seed limit" "list" "$@"
command -v jq >/dev/null || die "jq is missing"
open_bundle
touch "$json"
json=$(realpath "$json")

make_build
matrix=("$here/e2e/matrix.sh" "$build")

# Prints a line `SUBJECT/NAME COMMAND...` for each program that can run here.
list_programs() {
  local name program
  if python3 -c 'import torch' 2>/dev/null; then
    for name in $(python3 "$here/pytorch/run.py" --list); do
      echo "pytorch/$name python3 $here/pytorch/run.py $name"
    done
  fi
  for program in "$here"/judges/*.py; do
    name=$(basename "$program" .py)
    ! python3 -c "import ${name%%_*}" 2>/dev/null ||
      echo "judges/$name python3 $program"
  done
  for program in "$here"/libraries/*; do
    [[ ! -x $program ]] || ldd "$program" | grep 'not found' >/dev/null ||
      echo "libraries/${program##*/} $program"
  done
  for program in "$here"/cuda/*; do
    [[ ! -x $program ]] || echo "cuda/${program##*/} $program"
  done
}

packages=$(python3 -c 'import glob, nvidia
print(":".join(glob.glob(list(nvidia.__path__)[0] + "/*/lib")))' 2>/dev/null) ||
  true
export LD_LIBRARY_PATH=$packages:/usr/local/cuda/lib64
list_programs >"$work/programs"
matrix+=(--programs "$work/programs")
# Two nodes have the GPUs of this host. With one GPU there is no other one.
gpus=$(nvidia-smi --list-gpus | wc -l)
cells() {
  "${matrix[@]}" --list --only "$only" |
    awk -F/ -v gpus="$gpus" 'gpus > 1 || $3 != "pgpu"'
}
if [[ -n $list ]]; then
  cells
  exit
fi

# Prints the cells that are not in the file yet, sorted.
missing() { comm -23 <(sort "$work/cells") <(jq -r .cell "$json" | sort); }

# Runs the missing cells of a program.
run_program() { # SUBJECT/NAME
  local wanted
  wanted=$(missing | grep "^$1/" | paste -sd '|') || true
  [[ -n $wanted ]] || return 0
  "${matrix[@]}" --all --json --seed "$seed" --only "^($wanted)\$" \
    >>"$json" 2>"$logs/${1//\//-}.err" ||
    echo "survive.sh: $1: $(tail -n 1 "$logs/${1//\//-}.err")" >&2
}

print_table() { "${matrix[@]}" --table "$json"; }
logs=$json.logs
mkdir -p "$logs"
trap 'print_table; exit 130' INT TERM
cells >"$work/cells"
export E2E_DEVICE=nvidia E2E_PATIENCE=$limit
running=0
while read -r program; do
  ((running < jobs)) || { wait -n || true; running=$((running - 1)); }
  run_program "$program" &
  running=$((running + 1))
done < <(cut -d/ -f1,2 "$work/cells" | uniq)
wait
print_table
[[ -z $(missing) ]] || exit 2
jq -es 'all(.result | IN("same", "varies", "stays", "left-out", "never"))' \
  "$json" >/dev/null
