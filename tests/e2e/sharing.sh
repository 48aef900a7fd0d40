#!/usr/bin/env bash
# Two processes of one program share GPU memory. Checks their placement, their
# protection, refused handles, and that nothing is left.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${1-} == -h || ${1-} == --help || $# != 2 ]]; then
  echo "usage: sharing.sh BUILD mapped|forwarded"
  [[ ${1-} == -h || ${1-} == --help ]]
  exit
fi
begin "$1"
export VGPU_TRANSPORT=$2
sharer=$build/tests/e2e/sharer

refused_with() { # WORDS COMMAND ARGUMENT...
  local words=$1
  shift
  ! timeout -k 5 "$patience" "$vgpu" "$@" </dev/null >"$work/out/refused" 2>&1 ||
    fail "vgpu $* should have been refused"
  grep -Eq "$words" "$work/out/refused" ||
    fail "vgpu $*: $(<"$work/out/refused")"
}

lowered() {
  (($("$vgpu" events --json </dev/null | jq -s 'map(select(
    .kind == "protection-lowered" and (.text | test("shares")))) | length') \
    == 2))
}

# Counts the files of shared memory that workers hold.
shared_files() {
  local pid
  for pid in $(daemons vgpu-worker); do
    find "/proc/$pid/fd" -lname '/memfd:vgpu shared*' 2>/dev/null || true
    grep -h 'memfd:vgpu shared' "/proc/$pid/maps" || true
  done | wc -l
}

nothing_shared() { (($(shared_files) == 0)); }

# Checks that 64 MiB count once, with the process that allocated them.
counted_once() {
  status_is '[.vgpus[].sessions[].memory] | sort == [0, 67108864]'
}

steps=0
on_line() { # NUMBER LINE
  case $2 in
    shared)
      [[ $(status '[.vgpus[].sessions[] | .node + (.pgpus | tostring)] |
        unique | length') == 1 ]] || fail "they are apart: $(status .vgpus)"
      until_true lowered || fail "no event tells that nothing is protected"
      until_true counted_once || fail "memory: $(status .vgpus)"
      before=$(shared_files)
      ((before > 0)) || fail "nothing is shared"
      local vgpu_number
      for vgpu_number in 1 2; do
        refused_with 'shares GPU memory' suspend "$vgpu_number"
        refused_with 'shares GPU memory' migrate "$vgpu_number"
      done
      ;;
    refused) ;;
    cycled)
      # A worker may not have released the last file yet.
      no_more() { (($(shared_files) <= before)); }
      until_true no_more ||
        fail "$before files and mappings became $(shared_files)"
      ;;
    freed)
      ((before > 0)) || fail "nothing was shared"
      until_true counted_once || fail "memory: $(status .vgpus)"
      ! nothing_shared || fail "who opened it lost it"
      ;;
    closed)
      until_true nothing_shared ||
        fail "$(shared_files) files and mappings are left"
      ;;
    handed)
      until_true counted_once || fail "memory: $(status .vgpus)"
      ! nothing_shared || fail "nothing is shared"
      ;;
    returned)
      until_true nothing_shared ||
        fail "$(shared_files) files and mappings are left"
      until_true status_is '[.vgpus[].sessions[].memory] | all(. == 0)' ||
        fail "memory: $(status .vgpus)"
      ;;
    *) return ;;
  esac
  steps=$((steps + 1))
  echo >&"$orders"
}

cluster_up --nodes 2 --gpus-per-node 2
mkfifo "$work/tmp/orders"
exec {orders}<>"$work/tmp/orders"
follow_program sharer "$vgpu" run --memory 256MiB -- "$sharer" \
  "$work/tmp/orders"
exec {orders}>&-
rm -- "$work/tmp/orders"
((program_status == 0)) ||
  fail "it ended with $program_status: $(<"$work/out/sharer")"
((steps == 7)) || fail "it made $steps steps of 7"
[[ $(grep -c '^forged .* cudaErrorInvalidValue$' "$work/out/sharer") == 16 ]] ||
  fail "a forged handle: $(<"$work/out/sharer")"
grep -qx 'stale cudaErrorInvalidValue' "$work/out/sharer" ||
  fail "a stale handle: $(<"$work/out/sharer")"
grep -qx 'own cudaErrorDeviceUninitialized' "$work/out/sharer" ||
  fail "a handle of its own: $(<"$work/out/sharer")"
timeout -k 5 "$patience" "$vgpu" run --memory 256MiB -- "$sharer" </dev/null \
  >"$work/out/left" 2>&1 || fail "who was left alone: $(<"$work/out/left")"
[[ ! -s $work/out/sharer.err ]] || fail "$(<"$work/out/sharer.err")"
cluster_down
check_leaks
say "$steps steps, and nothing is left"
