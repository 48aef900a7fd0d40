#!/usr/bin/env bash
# Rotates all keys while programs run: the results are the same, and no session
# moves. With E2E_TIMES, as in tests/bench, no round of a program may take longer
# than 400 ms because of it.
# Usage: key_rotation.sh PROGRAMS EXAMPLES STEADY
source "$(dirname "${BASH_SOURCE[0]}")/keyed_lib.sh"
heat=$2/heat steady=$3
longest_pause_ms=400

# Prints the public key of who joined.
key_of() { # NAME
  as owner "$bin/vgpu" keys list --json | jq -er --arg name "$1" \
    '.keys[] | select(.name == $name) | .key'
}

manager_key() { as owner "$bin/vgpu" keys list --json | jq -er .manager; }

# Prints session, epoch and worker of each session.
places() {
  as admin "$bin/vgpu" status --json | jq -ec '[.vgpus[].sessions[] |
    select(.state == "running") | [.id, .epoch, .worker_pid]] | sort'
}

# Fails where a session is elsewhere than `before`, or the program that measures
# has none. The other one may have ended.
none_moved() {
  local now
  now=$(places)
  jq -en --argjson before "$before" --argjson now "$now" \
    '$now - $before == [] and $now != []' >/dev/null ||
    fail "sessions moved: $before, $now"
}

all_renewed() {
  as owner "$bin/vgpu" keys list --json |
    jq -e '.rotation.waiting == []' >/dev/null
}

# Tells whether the files of all have their new keys, and nothing unfinished.
all_kept() {
  local who file
  for who in node admin tenant; do
    file=$work/$who/login.json
    [[ $who != node ]] || file=$work/node/node.json
    jq -e --argjson rotation "$1" --arg manager "$(manager_key)" \
      '(has("next") | not) and .rotation == $rotation and
        .manager == $manager' "$file" >/dev/null ||
      return 1
  done
}

start_manager
expect 1 as owner "$bin/vgpu" keys rotate --end
told "no rotation"
expect 2 as owner "$bin/vgpu" keys rotate --overlap soon
expect 0 as admin "$bin/vgpu" login "$(token admin)" --name root
expect 0 as tenant "$bin/vgpu" login "$(token tenant --tenant physics)" \
  --name pat
expect 0 as absent "$bin/vgpu" login "$(token tenant --tenant physics)" \
  --name bo
expect 0 as node "$bin/vgpu" node join "$(token node)" --name a
as node "$bin/vgpu-node" --name a --manager "$endpoint" --bind 127.0.0.1 \
  --run-dir "$work/run" --device cpu --gpus-per-node 2 2>"$work/node.log" &
node=$!
node_is_alive() {
  as admin "$bin/vgpu" status --json |
    jq -e '.nodes[0].state == "alive"' >/dev/null
}
until_true node_is_alive

export VGPU_TRANSPORT=forwarded
heat_for() { # MILLISECONDS-A-LINE
  as tenant "$bin/vgpu" run --share 0.4 --memory 64MiB -- \
    "$heat" 60 96 20 "$1"
}
heat_for 0 >"$work/undisturbed" 2>"$work/program.log" ||
  fail "no forwarded program runs"

# The rotation, under a program that computes and one that measures.
heat_for 2000 >"$work/disturbed" 2>"$work/heat.log" &
heated=$!
as tenant "$bin/vgpu" run --share 0.4 --memory 64MiB -- "$steady" "$work/stop" \
  >"$work/rounds" 2>"$work/steady.log" &
rounds=$!
both_run() { [[ $(places | jq length) == 2 ]]; }
until_true both_run
before=$(places)
former_keys=$(manager_key; key_of a; key_of root; key_of pat)
expect 0 as owner "$bin/vgpu" keys rotate --overlap 1h --json
jq -e '.number == 1 and (.over | not) and
  .waiting == ["root", "pat", "bo", "a"]' "$work/out" >/dev/null ||
  fail "rotate: $(<"$work/out")"
expect 1 as owner "$bin/vgpu" keys rotate
told "not over"
# The admin renews its key by its next command.
admin_renews() {
  as admin "$bin/vgpu" status >/dev/null && all_kept 1
}
until_true admin_renews
now_keys=$(manager_key; key_of a; key_of root; key_of pat)
! grep -qxF "$former_keys" <<<"$now_keys" || fail "a key was not rotated"
expect 0 as owner "$bin/vgpu" keys list
grep -qE '^tenant +bo .*not renewed' "$work/out" || fail "list: $(<"$work/out")"
! grep -E '^(tenant +pat|node|admin).*not renewed' "$work/out" ||
  fail "list: $(<"$work/out")"
# Who was away connects by its former key, and renews it.
expect 0 as absent "$bin/vgpu" status
until_true all_renewed
none_moved

# A token of before joins nobody any more once the rotation has ended.
expect 0 as owner "$bin/vgpu" keys rotate --end
for who in admin absent; do expect 0 as "$who" "$bin/vgpu" status; done
[[ $(stat -c %a "$work"/{owner/manager,node/node,tenant/login}.json | sort -u) \
  == 600 ]] || fail "the keys are not private"
none_moved

# Its client also connects after the end of the former keys, by a new program.
touch "$work/stop"
wait "$rounds" || fail "the program that measures failed: $(<"$work/steady.log")"
wait "$heated" || fail "heat failed: $(<"$work/heat.log")"
cmp "$work/undisturbed" "$work/disturbed" || fail "other results"
longest=$(sed -n 's/^longest round \([0-9]*\)\..*/\1/p' "$work/rounds")
[[ -n $longest ]] || fail "no longest round: $(<"$work/rounds")"
echo "longest round: $longest ms"
[[ -z ${E2E_TIMES-} ]] || ((longest <= longest_pause_ms)) ||
  fail "a round took $longest ms, more than $longest_pause_ms"
heat_for 0 >"$work/later" 2>"$work/program.log" || fail "no program runs later"
cmp "$work/undisturbed" "$work/later" || fail "other results later"

# The manager that starts again has the keys of the rotation, also in the midst
# of one.
expect 0 as owner "$bin/vgpu" keys rotate
kill -KILL "$manager"
wait "$manager" 2>/dev/null || true
as owner "$bin/vgpu-manager" --listen "$endpoint" --run-dir "$work/run" \
  2>>"$work/manager.log" &
manager=$!
second_renewal() {
  as admin "$bin/vgpu" status >/dev/null &&
    as tenant "$bin/vgpu" status >/dev/null &&
    as absent "$bin/vgpu" status >/dev/null && all_renewed && all_kept 2
}
until_true second_renewal
expect 0 as owner "$bin/vgpu" keys rotate --end
until_true node_is_alive
expect 0 as admin "$bin/vgpu" audit --json
jq -es 'map(select(.order == "renewKey" and .outcome == "done") | .name) |
  unique == ["a", "bo", "pat", "root"]' "$work/out" >/dev/null ||
  fail "audit: $(<"$work/out")"
echo done
