#!/usr/bin/env bash
# Two programs on one pGPU: an error of one does not affect the other.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${1-} == -h || ${1-} == --help || $# != 2 ]]; then
  echo "usage: two_programs.sh BUILD mapped|forwarded"
  [[ ${1-} == -h || ${1-} == --help ]]
  exit
fi
begin "$1"
export VGPU_TRANSPORT=$2
arguments=(600 96 20 100)
strays=0

# Runs several faulty programs, one after the other, while heat runs.
on_line() { # NUMBER LINE
  (($1 % 6 == 3)) || return 0
  "$vgpu" run --share 0.3 -- "$guest" wait </dev/null \
    >"$work/out/other" 2>&1 &
  local other=$!
  until_true grep -q ready "$work/out/other" ||
    fail "the third program does not run: $(<"$work/out/other")"
  until_true status_is '.nodes[0].pgpus[0].sessions | length == 2' ||
    fail "they do not share the pGPU: $(status .)"
  expect 0 "$vgpu" run --share 0.3 -- "$guest" stray
  [[ $(<"$work/out/stdout") == cudaErrorIllegalAddress ]] ||
    fail "the stray program sees '$(<"$work/out/stdout")'"
  alive "$other" || fail "a stray kernel ended another program"
  kill -TERM "$other"
  wait "$other" || true
  strays=$((strays + 1))
}

undisturbed_heat undisturbed "${arguments[@]}"
cluster_up --nodes 1 --gpus-per-node 1
follow_program disturbed "$vgpu" run --share 0.3 -- "$heat" \
  "${arguments[@]}"
((program_status == 0)) || fail "heat ended with $program_status"
same undisturbed disturbed || fail "heat prints other lines"
((strays == 5)) || fail "only $strays programs went astray"
! has_event '.kind | test("session-replaced|session-replayed|device-lost")' ||
  fail "a program's own fault was taken for the device's"
say "$strays faulty programs ran while heat ran, and heat is right"
cluster_down
check_leaks
