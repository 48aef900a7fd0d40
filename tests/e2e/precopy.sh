#!/usr/bin/env bash
# A program that continuously writes to its memory is moved, or has snapshots.
# It must stand still only while changed memory is copied, however much memory
# it has, and find in its memory at the end what it wrote.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: precopy.sh BUILD CASE MIB MOST-MS

  migrate    to another node, and back
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
    "$the_end"
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
