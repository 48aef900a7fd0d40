#!/usr/bin/env bash
# Measures what keys cost a program's calls and copies. tests/gpu/e2e.sh runs it on
# a host with GPUs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'USAGE'
usage: keyed_calls.sh BUILD [ROUNDS]

Runs `calls copies` of tests/gpu in clusters without keys and with them, in turns,
with calls forwarded over TCP on loopback and mapped, and prints the median of
each measurement, a column each. Copies of 256 MiB are in GB/s, all others in us.

  ROUNDS   turns (3)
USAGE
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# == 1 || $# == 2)) || { usage >&2; exit 2; }
begin "$1"
rounds=${2:-3}
[[ $rounds =~ ^[1-9][0-9]?$ ]] || fail "expected 1 to 99 rounds, saw '$rounds'"
calls=$build/tests/gpu/calls
[[ -x $calls ]] || fail "no $calls; build the target gpu_calls first"

measure() { # COLUMN TRANSPORT
  VGPU_TRANSPORT=$2 timeout "$patience" "$vgpu" run -- "$calls" copies \
    </dev/null >"$work/out/calls" || fail "calls $1: $(<"$work/out/calls")"
  sed "s/^/$1 /" "$work/out/calls" >>"$work/lines"
}

for ((i = 0; i < rounds; ++i)); do
  for keys in '' 1; do
    export E2E_KEYS=$keys
    options=()
    has_keys || options=(--bind 127.0.0.1)
    cluster_up "${options[@]}"
    for transport in forwarded mapped; do
      measure "$transport${keys:+,keys}" "$transport"
    done
    cluster_down
  done
done
awk -f "$(dirname "${BASH_SOURCE[0]}")/medians.awk" -v unit= "$work/lines"
