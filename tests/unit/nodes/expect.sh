# Is sourced by tests of commands. Their output goes to the files `out` and `err` in
# the folder $work, and fail() ends the test.

expect() { # CODE COMMAND...
  local wanted=$1 got=0
  shift
  # Ends a command that would outlive the test. The test's own limit comes
  # first.
  timeout 600 "$@" </dev/null >"$work/out" 2>"$work/err" || got=$?
  ((got == wanted)) || fail "$*: ended with $got, not $wanted: $(<"$work/err")"
}

told() { # REGEX
  grep -qE "$1" "$work/err" || fail "no message matches '$1': $(<"$work/err")"
}
