#!/usr/bin/env bash
# Starts and stops the cluster that the tests of this folder share.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: cluster.sh BUILD up
       cluster.sh BUILD run PROGRAM [ARGUMENT...]
       cluster.sh BUILD down

Starts a cluster of one node for the tests, runs a program on it, or stops it.
BUILD is the build folder. `run` succeeds when the program ends with the code
in EXPECTED_EXIT_CODE (0 by default).
EOF
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
if (($# < 2)); then
  usage >&2
  exit 2
fi
build=$1 action=$2
shift 2
vgpu=$build/bin/vgpu
# The run directory's name is kept short for its Unix sockets.
record=$build/tests/cuda/cluster.dir

stop() {
  [[ -f $record ]] || return 0
  local dir
  dir=$(<"$record")
  if [[ -d $dir ]]; then
    "$vgpu" down --run-dir "$dir" </dev/null || return
    rm -rf -- "$dir"
  fi
  rm -f -- "$record"
}

case $action in
  up)
    stop || rm -f -- "$record" # what an interrupted run left behind
    dir=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-cuda.XXXXXX")
    printf '%s\n' "$dir" >"$record"
    # The daemons must not inherit this script's output, because ctest would
    # wait for them.
    if ! "$vgpu" up --nodes 1 --run-dir "$dir" </dev/null >"$dir/up.log" 2>&1
    then
      cat "$dir/up.log"
      echo "cluster.sh: '$vgpu up' failed" >&2
      exit 1
    fi
    cat "$dir/up.log"
    ;;
  run)
    dir=$(<"$record")
    code=0
    VGPU_MANAGER=ipc://$dir/manager.sock "$vgpu" run -- "$@" </dev/null ||
      code=$?
    if ((code != ${EXPECTED_EXIT_CODE:-0})); then
      echo "cluster.sh: $1 ended with $code," \
        "not ${EXPECTED_EXIT_CODE:-0}" >&2
      exit 1
    fi
    ;;
  down)
    stop
    ;;
  *)
    echo "cluster.sh: no such action: $action" >&2
    exit 2
    ;;
esac
