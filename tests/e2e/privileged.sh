#!/usr/bin/env bash
# A set-user-ID program does not run what its user's environment names.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin "$1"
((EUID == 0)) || skip "only root can make a program of another user"
program=$work/privileged
cp "$build/tests/e2e/privileged" "$program"
chmod 755 "$work" "$program"
# No client lies beside this copy of the library.
library=$work/lib/libcuda.so.1
mkdir "$work/lib"
cp -L "$build/lib/libcuda.so.1" "$library"
chmod 755 "$work/lib" "$library"
mkdir -m 777 "$work/marks"
cat >"$work/chosen" <<EOT
#!/bin/sh
touch "$work/marks/\$(id -u)"
EOT
chmod 755 "$work/chosen"
export VGPU_CLIENT=$work/chosen

marks() { ls "$work/marks"; }

# An ordinary program uses the client that the user chose.
"$program" "$library" >"$work/out/ordinary" 2>&1 ||
  fail "the ordinary program: $(<"$work/out/ordinary")"
until_true test -e "$work/marks/0" ||
  fail "expected the chosen client to run, saw $(<"$work/out/ordinary")"
rm "$work/marks/0"

chown 65534 "$program"
chmod 4755 "$program"
"$program" "$library" >"$work/out/privileged" 2>&1 ||
  fail "the set-user-ID program: $(<"$work/out/privileged")"
# The library has waited for the client that it started.
[[ -z $(marks) ]] || fail "the chosen client ran as user $(marks)"
