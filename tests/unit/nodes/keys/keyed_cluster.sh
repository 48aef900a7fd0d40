#!/usr/bin/env bash
# Tests a manager, a node and commands with keys, as users run them.
# Usage: keyed_cluster.sh PROGRAMS EXAMPLES
source "$(dirname "${BASH_SOURCE[0]}")/keyed_lib.sh"
program=$2/vector_add heat=$2/heat

for wrong in tcp://10.0.0.1 ipc:///x nonsense; do
  expect 2 as owner "$bin/vgpu" keys init "$wrong"
done
expect 1 as owner "$bin/vgpu" keys list
told "keys init"
expect 1 as owner "$bin/vgpu" token node
start_manager
expect 1 as owner "$bin/vgpu" keys init "$endpoint"
[[ $(stat -c %a "$work/owner" "$work/owner/manager.json") == $'700\n600' ]] ||
  fail "the keys are not private"

# Strangers get no answer.
expect 3 "$bin/vgpu" status --manager "$endpoint"
expect 2 "$bin/vgpu" login nonsense
expect 2 "$bin/vgpu" token nobody
expect 2 as owner "$bin/vgpu" token node --ttl soon

# An admin.
first=$(token admin)
expect 2 as admin "$bin/vgpu" node join "$first"
expect 0 as admin "$bin/vgpu" login "$first" --name root
expect 0 as admin "$bin/vgpu" status
expect 1 as thief "$bin/vgpu" login "$first" --name thief
told "used up"
[[ ! -e $work/thief/login.json ]] || fail "a token was used twice"

# A tenant commands its own vGPUs, and nothing else.
expect 0 as tenant "$bin/vgpu" login "$(token tenant --tenant physics)"
expect 0 as tenant "$bin/vgpu" status
for order in "drain a" "tenant add physics" "inject a 0 lost"; do
  # shellcheck disable=SC2086
  expect 1 as tenant "$bin/vgpu" $order
  told "does not allow"
done

# A token that was cut or is of another manager finds no one.
expect 2 as thief "$bin/vgpu" login "${first:0:100}"
other=$(token admin)
wrong=${other/-admin-??????/-admin-000000}
expect 3 as thief "$bin/vgpu" login "$wrong"
[[ ! -e $work/thief/login.json ]] || fail "a wrong manager was joined"

# A node, under the name of its key alone.
expect 0 as node "$bin/vgpu" node join "$(token node)" --name a
expect 1 as node timeout 60 "$bin/vgpu-node" --name b --manager "$endpoint" \
  --run-dir "$work/run" --device cpu
as node "$bin/vgpu-node" --name a --manager "$endpoint" --bind 127.0.0.1 \
  --run-dir "$work/run" --device cpu 2>"$work/node.log" &
node=$!
node_is() { # STATE
  as admin "$bin/vgpu" status --json |
    jq -e --arg state "$1" '.nodes | length == 1 and .[0].name == "a" and
      .[0].state == $state' >/dev/null
}
until_true node_is alive

# The tenant's program runs there, and is charged to the tenant's key.
expect 0 as tenant "$bin/vgpu" run -- "$program"
charged() {
  as admin "$bin/vgpu" usage --json | jq -e --arg vm "$(jq -r .name \
    "$work/tenant/login.json")/" '.entries | length == 1 and
    (.[0].vm | startswith($vm))' >/dev/null
}
until_true charged

# Its tenant has quotas. Orders about them are an admin's.
expect 0 as tenant "$bin/vgpu" tenant list --json
jq -e '[.tenants[].name] == ["physics"]' "$work/out" >/dev/null ||
  fail "a tenant sees others: $(<"$work/out")"
for wrong in "add physics --gpus -1" "add physics --memory much" \
  "set physics --priority 2000" "add phys/ics" "add" "remove"; do
  # shellcheck disable=SC2086
  expect 2 as admin "$bin/vgpu" tenant $wrong
done
expect 1 as admin "$bin/vgpu" tenant set physics --gpus 1
told "no tenant 'physics'"
expect 0 as admin "$bin/vgpu" tenant add physics --sessions 0 --memory 1G
expect 1 as admin "$bin/vgpu" tenant add physics
# A program beyond the limits does not start, and without `vgpu run` it has no
# GPU.
expect 1 as tenant "$bin/vgpu" run --memory 64MiB -- /bin/echo began
told "tenant 'physics' may have 0 sessions.*vgpu tenant set physics --sessions"
[[ ! -s $work/out ]] || fail "it began: $(<"$work/out")"
! VGPU_LOG=error VGPU_MANAGER=$endpoint VGPU_MEMORY=64MiB \
  LD_LIBRARY_PATH=$bin/../lib as tenant \
  "$program" >"$work/out" 2>"$work/err" ||
  fail "a program ran beyond the quota"
told "no CUDA-capable device is detected"
told "tenant 'physics' may have 0 sessions"
expect 0 as tenant "$bin/vgpu" events --json
jq -es 'flatten | any(.kind == "refused" and
  (.text | test("may have 0 sessions")))' "$work/out" >/dev/null ||
  fail "events: $(<"$work/out")"
has_no_session() {
  as admin "$bin/vgpu" tenant list --json | jq -e '.tenants[] |
    select(.name == "physics") | .used.sessions == 0' >/dev/null
}
until_true has_no_session
expect 0 as admin "$bin/vgpu" tenant set physics --sessions 1
expect 0 as tenant "$bin/vgpu" run --memory 64MiB -- "$program"
expect 0 as admin "$bin/vgpu" tenant list
grep -qE '^physics +[01] of 1 +0 ' "$work/out" || fail "list: $(<"$work/out")"
expect 0 as admin "$bin/vgpu" tenant list --json
jq -e '[.tenants[] | select(.added) | .name] == ["default", "physics"] and
  (.tenants[] | select(.name == "physics") | .limits) ==
  {"sessions": 1, "memory": 1073741824}' "$work/out" >/dev/null ||
  fail "list: $(<"$work/out")"
expect 0 as admin "$bin/vgpu" tenant remove physics --force
expect 1 as admin "$bin/vgpu" tenant remove physics

# Another tenant neither sees nor touches a program of this one. What it says
# of it is answered as if there were none.
expect 0 as other "$bin/vgpu" login "$(token tenant --tenant biology)" \
  --name bo
as tenant "$bin/vgpu" run --memory 64MiB -- "$heat" 6000 96 20 1000 \
  >"$work/owned" 2>"$work/program.log" &
owned=$!
own_vgpu() { # WHO
  as "$1" "$bin/vgpu" status --json | jq -e '.vgpus[] |
    select(.sessions[0].state == "running") | .id'
}
until_true own_vgpu tenant
vgpu=$(<"$work/out")
# What the limits do not permit at present is told.
expect 0 as admin "$bin/vgpu" tenant add physics --sessions 1
expect 0 as tenant "$bin/vgpu" run --memory 64MiB -- /bin/echo began
told "no GPU as long as this holds: tenant 'physics' may have 1 sessions, has 1"
expect 0 as admin "$bin/vgpu" tenant remove physics --force
! own_vgpu other >"$work/out" || fail "a tenant sees another's vGPU"
for order in "status --json --detail" "events --json" "usage --json" \
  "tenant list --json"; do
  # shellcheck disable=SC2086
  expect 0 as other "$bin/vgpu" $order
  ! grep -qE "physics|heat|vector_add|$(jq -r .name "$work/tenant/login.json")" \
    "$work/out" || fail "$order shows another tenant: $(<"$work/out")"
done
for order in "suspend VGPU" "resume VGPU" "migrate VGPU" \
  "set VGPU priority=1"; do
  # shellcheck disable=SC2086
  expect 1 as other "$bin/vgpu" ${order/VGPU/$vgpu}
  sed "s/\b$vgpu\b/#/g" "$work/err" >"$work/of_other"
  # shellcheck disable=SC2086
  expect 1 as other "$bin/vgpu" ${order/VGPU/4000}
  sed "s/\b4000\b/#/g" "$work/err" | cmp - "$work/of_other" ||
    fail "$order: another tenant's vGPU is not as one that does not exist"
done
expect 0 as tenant "$bin/vgpu" suspend "$vgpu" --hold
expect 0 as tenant "$bin/vgpu" resume "$vgpu"
expect 0 as tenant "$bin/vgpu" set "$vgpu" share=0.5
expect 0 as tenant "$bin/vgpu" events --json
jq -es 'flatten | any(.kind == "session-suspended") and
  all(.tenant == "physics")' "$work/out" >/dev/null ||
  fail "events: $(<"$work/out")"
kill "$owned"
wait "$owned" 2>/dev/null || true

# Calls cross the network by the key of its worker, also after its worker died.
export VGPU_TRANSPORT=forwarded
heat_for() { # MILLISECONDS-A-LINE
  as tenant "$bin/vgpu" run -- "$heat" 60 96 20 "$1"
}
heat_for 0 >"$work/undisturbed" 2>"$work/program.log" ||
  fail "no forwarded program runs"
worker() {
  as admin "$bin/vgpu" status --json | jq -e '.vgpus[].sessions[] |
    select(.state == "running" and .calls > 0) | .worker_pid'
}
kill_worker() {
  while kill -0 "$heated" 2>/dev/null; do
    worker >"$work/pid" 2>"$work/err" || continue
    tr '\0' ' ' <"/proc/$(<"$work/pid")/cmdline" >"$work/command" || continue
    kill -KILL "$(<"$work/pid")" && return
  done
  return 1
}
# On a slow machine a short program may end first.
for pause in 300 3000 30000; do
  heat_for "$pause" >"$work/disturbed" 2>"$work/program.log" &
  heated=$!
  killed=
  if kill_worker; then killed=yes; fi
  wait "$heated" || fail "the program lost its vGPU"
  cmp "$work/undisturbed" "$work/disturbed" || fail "other results"
  [[ -z $killed ]] || break
done
[[ -n $killed ]] || fail "no worker could be killed"
grep -q -e '--bind tcp://127.0.0.1:\* .*--keys' "$work/command" ||
  fail "the worker had no key: $(<"$work/command")"
replaced() {
  as admin "$bin/vgpu" events --json | jq -es 'flatten |
    any(.kind == "session-replaced")'
}
until_true replaced
unset VGPU_TRANSPORT

expect 0 as owner "$bin/vgpu" keys list --json
jq -e --arg endpoint "$endpoint" '.endpoint == $endpoint and
  ([.keys[] | select(.kind != "token") | .kind + " " + .tenant] | sort) ==
  ["admin ", "node ", "tenant biology", "tenant physics"]' "$work/out" >/dev/null ||
  fail "keys: $(<"$work/out")"
! grep -q secret "$work/out" || fail "a list shows a secret"

# Who ordered what stands in the audit log, also after a manager's death.
expect 1 as tenant "$bin/vgpu" audit
told "does not allow"
expect 2 as admin "$bin/vgpu" audit --verify --head 7
expect 2 as admin "$bin/vgpu" audit --since tomorrow
expect 0 as admin "$bin/vgpu" audit --verify
last=$(tail -n 1 "$work/out")
kill -KILL "$manager"
wait "$manager" 2>/dev/null || true
as owner "$bin/vgpu-manager" --listen "$endpoint" --run-dir "$work/run" \
  2>>"$work/manager.log" &
manager=$!
until_true node_is alive
expect 0 as admin "$bin/vgpu" audit --verify --head "$last"
expect 0 as admin "$bin/vgpu" audit --since 1h --json
jq -es --arg pat "$(jq -r .name "$work/tenant/login.json")" '
  any(.order == "suspendVgpu" and .name == $pat and .role == "tenant" and
    .tenant == "physics" and .outcome == "done" and .of) and
  any(.order == "migrateVgpu" and .name == "bo" and .outcome == "refused") and
  any(.order == "setTenant" and .name == "root" and .outcome == "done") and
  any(.order == "enroll" and .object == "key of a" and .role == "token") and
  all(.proved or .outcome == "noted")' "$work/out" >/dev/null ||
  fail "audit: $(<"$work/out")"
expect 0 as admin "$bin/vgpu" audit --principal bo
! grep -qE "root|physics" "$work/out" || fail "audit: $(<"$work/out")"

# The files prove themselves, and tell where somebody was at them.
log=$work/run/manager.store.audit
cp "$log" "$work/copy"
cp "$log.head" "$work/copy.head"
expect 0 "$bin/vgpu" audit --verify --file "$work/copy" --head "$last"
altered() { # SED-SCRIPT REGEX
  sed "$1" "$log" >"$work/copy"
  expect 4 "$bin/vgpu" audit --verify --file "$work/copy"
  told "$2"
}
altered '4s/"order"/"0rder"/' "record 4 does not match its digest"
altered 5d "record 5 is missing"
altered '3{h;d};4G' "record 4 comes after record 2|record 3 is missing"
altered '$d' "its end was cut off"
altered '$s/....$//' "does not match its digest|is no record"

# A revoked key's programs have no worker any more. It does not wait until its
# client would have had time to come back.
VGPU_TRANSPORT=forwarded as tenant "$bin/vgpu" run -- "$heat" 60 96 20 30000 \
  >"$work/revoked" 2>"$work/program.log" &
revoked=$!
until_true worker
pid=$(<"$work/out")
expect 0 as owner "$bin/vgpu" keys revoke \
  "$(jq -r .name "$work/tenant/login.json")"
is_over() {
  as admin "$bin/vgpu" events --json | jq -es 'flatten | any(
    .kind == "session-closed" and (.text | test("was revoked")))'
}
until_true is_over
has_ended() { ! kill -0 "$pid"; }
until_true has_ended
kill "$revoked"
wait "$revoked" 2>/dev/null || true

# Revoked keys are out.
expect 0 as owner "$bin/vgpu" keys revoke a
until_true node_is lost
expect 1 as owner "$bin/vgpu" keys revoke a
expect 0 as owner "$bin/vgpu" keys revoke root
refused() { ! as admin "$bin/vgpu" status; }
until_true refused
echo done
