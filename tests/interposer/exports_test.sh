#!/bin/sh
# The library exports the catalogue's symbols and nothing else; and where the
# toolkit's stub library is at hand, these are its symbols.
set -eu
library=$1
catalogue=$2
toolkit=$3
export LC_ALL=C
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
listed=$(sed -n 's/^VGPU_CALL(\([^,]*\),.*/\1/p' "$catalogue" | sort)
if [ "$exported" != "$listed" ]; then
  echo "the library's exports differ from the catalogue:"
  printf '%s\n' "$exported" > "${TMPDIR:-/tmp}/exported.$$"
  printf '%s\n' "$listed" | diff "${TMPDIR:-/tmp}/exported.$$" - || true
  rm -f "${TMPDIR:-/tmp}/exported.$$"
  exit 1
fi
for stub in "$toolkit"/../lib64/stubs/libcuda.so \
            "$toolkit"/../targets/x86_64-linux/lib/stubs/libcuda.so; do
  [ -e "$stub" ] || continue
  stubs=$(nm -D --defined-only "$stub" | awk '{print $3}' | sort)
  if [ "$stubs" != "$listed" ]; then
    echo "the catalogue differs from $stub"
    exit 1
  fi
  break
done
readelf -d "$library" | grep -q 'soname: \[libcuda.so.1\]'
