#!/usr/bin/env bash
# A program that has to wait for a GPU logs the reason once, and gets the GPU
# when there is room. A smaller program goes ahead if that does not delay
# others. It waits on while its clients are killed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1-}" in
  -h | --help) echo "usage: queue.sh BUILD"; exit 0 ;;
esac
begin "$1"
steady=$build/tests/e2e/steady

start() { # NAME MEMORY
  VGPU_LOG=info timeout -k 5 "$life" "$vgpu" run --memory "$2" -- \
    "$steady" "$work/tmp/stop-$1" </dev/null >"$work/out/$1" \
    2>"$work/out/$1.err" &
  pid[$1]=$!
}

finish() { # NAME
  : >"$work/tmp/stop-$1"
  wait "${pid[$1]}" || fail "$1: $(<"$work/out/$1.err")"
  grep -q ' rounds$' "$work/out/$1" || fail "$1 says nothing"
  rm -- "$work/tmp/stop-$1"
}

runs() { # VGPU
  status_is ".vgpus[] | select(.id == $1).sessions[0].state == \"running\""
}

declare -A pid
cluster_up --nodes 2 --memory 1GiB
start first 768MiB
until_true runs 1 || fail "the first does not run"
start second 896MiB
until_true runs 2 || fail "the second does not run"
start large 1GiB
until_true grep -q 'waits for a GPU: .* pGPU 0 lacks 768 MiB' \
  "$work/out/large.err" || fail "no reason is logged: $(<"$work/out/large.err")"
status_is '.vgpus[2].sessions[0] | .state == "waiting" and
  (.waiting_because | test("pGPU 0 lacks 768 MiB \\(768 MiB of 1024 MiB"))' ||
  fail "status does not tell why: $(status '.vgpus[2]')"
# Only the GPU that lacks least is kept for the waiting program.
start small 128MiB
until_true runs 4 || fail "the small one is held up"
finish small
start middle 256MiB
until_true grep -q 'is reserved for a program ahead in the queue' \
  "$work/out/middle.err" || fail "no reason is logged: $(<"$work/out/middle.err")"
finish first
until_true runs 3 || fail "the large one does not get what was kept for it"
finish large
finish middle
finish second
(($(grep -c '^vgpu\[.*waits for a GPU' "$work/out/large.err") == 1)) ||
  fail "the reason is logged several times: $(<"$work/out/large.err")"

# Sets `client` to the process that waits for a place.
waits_with_another_client() {
  local now
  now=$(status '[.vgpus[].sessions[] | select(.state == "waiting")] | last
    | .client | split("-") | last')
  [[ -n $now && $now != "${client-}" ]] && alive "$now" && client=$now
}

start first 768MiB
start second 896MiB
until_true status_is '[.vgpus[].sessions[] | select(.state == "running")]
  | length == 2' || fail "two programs do not run"
start patient 512MiB
for ((killed = 0; killed < 5; ++killed)); do
  until_true waits_with_another_client ||
    fail "it does not wait after $killed dead clients: $(<"$work/out/patient.err")"
  kill_hard "$client" || fail "cannot kill the client"
done
finish first
finish patient
finish second
cluster_down
check_leaks
