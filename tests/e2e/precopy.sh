#!/usr/bin/env bash
# A program that continuously writes to its memory is moved, or has snapshots.
# It must stand still only while changed memory is copied, however much memory
# it has, and find in its memory at the end what it wrote.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: precopy.sh BUILD CASE MIB MOST-MS

  migrate    to another node, and back
  forwarded  the same, with a client that forwards calls: most of a state must
             travel before the program stands still
  suspend    suspended, and brought back by its next call
  snapshots  taken every 500 ms

MIB: how much memory it has; a tenth of it is written anew each second. MOST-MS:
for how long its calls may not be executed at once.
EOT
}
begin_case 4 "$@"
unset VGPU_TRANSPORT
rewriter=$build/tests/e2e/rewriter
mebibytes=$3 most_ms=$4
the_end=$work/tmp/the-end

on_line() { :; }

moved=0
move() { # COMMAND ARGUMENT...
  local began
  began=$(milliseconds)
  order "$@"
  moved=$((moved + 1))
  say "vgpu $*: $(($(milliseconds) - began)) ms in all"
}

rewrite() { # OPTION...
  follow_program rewriter "$vgpu" run "$@" -- "$rewriter" "$mebibytes" \
    "$the_end" "${percent-10}"
  rm -f -- "$the_end"
  ((program_status == 0)) ||
    fail "it ended with $program_status: $(<"$work/out/rewriter.err")"
  say "$(tail -n 2 "$work/out/rewriter" | paste -sd ' ')"
}

pauses() { # KIND
  "$vgpu" events --json </dev/null | jq -s -r \
    "map(select(.kind == \"$1\") | .milliseconds | round) | join(\" \")"
}

short_enough() {
  local longest
  longest=$(sed -n 's/^longest \([0-9]*\).*/\1/p' "$work/out/rewriter")
  [[ -n $longest ]] ||
    fail "expected a line 'longest MS', saw $(tail -n 3 "$work/out/rewriter")"
  within "$most_ms" "$longest" "its calls went on"
}

# Calls FUNCTION when the program is ready. The program continues until it
# returns.
on_ready() { # FUNCTION
  ready=$1
  on_line() {
    [[ $2 == ready ]] || return 0
    "$ready"
    : >"$the_end"
  }
}

cluster() {
  cluster_up --nodes 2 --memory "$((mebibytes + 256))M"
}

case_migrate() {
  there_and_back() { move migrate 1 && move migrate 1; }
  on_ready there_and_back
  cluster
  rewrite
  ((moved == 2)) || fail "it was moved $moved times"
  say "pauses in ms: $(pauses session-migrated)"
  short_enough
}

# Moves the program, which changes next to nothing. Tells whether at most an
# eighth of its memory travelled while it stood still. All of it does where the
# next worker opened its devices too late to be told of it. A snapshot, which is
# taken where calls take long, travels ahead of the move.
little_at_rest() {
  move migrate 1
  on_nvidia || "$vgpu" events --json </dev/null |
    jq -es --argjson most "$((mebibytes << 17))" '
      any(.[]; .kind == "session-snapshot") as $snapshot | map(
      select(.kind == "session-copied").text |
      capture("(?<ahead>[0-9]+) bytes of its state.* and (?<rest>[0-9]+) bytes")
      | map_values(tonumber)) | last
      | (.ahead > $most or $snapshot) and .rest <= $most' >/dev/null
}

case_forwarded() {
  export VGPU_TRANSPORT=forwarded
  there_and_back() {
    until_true little_at_rest && until_true little_at_rest ||
      fail "too much travelled while it stood still: $(copied)"
  }
  copied() {
    "$vgpu" events --json </dev/null |
      jq -r 'select(.kind == "session-copied").text'
  }
  on_ready there_and_back
  cluster
  percent=0 rewrite
  say "$(copied)"
  say "pauses in ms: $(pauses session-migrated)"
}

case_suspend() {
  called() { has_event '.kind == "session-resumed"'; }
  once() {
    move suspend 1
    until_true called || fail "it was not resumed"
  }
  on_ready once
  cluster
  rewrite
  say "pauses in ms: $(pauses session-resumed)"
  short_enough
}

case_snapshots() {
  # After the first snapshot, the program writes half of its memory in some five
  # seconds.
  on_line() {
    case $1 in
      1)
        await_event '.kind == "session-snapshot"' >"$work/out/event" ||
          fail "no snapshot was taken"
        ;;
      6) : >"$the_end" ;;
    esac
  }
  cluster
  rewrite --protect snapshot --snapshot-every 500ms
  say "pauses of snapshots in ms: $(pauses session-snapshot)"
  short_enough
}

run_case "$@"
