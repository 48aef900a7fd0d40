#!/bin/sh
# Checks that the library exports the catalogue's symbols and nothing else.
# Where the toolkit is installed, also checks that these are the symbols of its
# stub library and of its headers for OpenGL, EGL and VDPAU.
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
  declared=$(cat "$toolkit"/cudaGL.h "$toolkit"/cudaEGL.h \
    "$toolkit"/cudaVDPAU.h | sed -n 's/.*CUDAAPI \(cu[A-Za-z0-9_]*\).*/\1/p' |
    grep -v '^cuWGL' | sort -u) # that one is Windows' alone
  names=$(printf '%s\n' "$declared" | sed 's/_v[0-9]*$//' | sort -u |
    paste -sd '|')
  others=$(printf '%s\n' "$listed" |
    grep -vxE "($names)(_v[0-9]+)?(_pt[ds][sz])?")
  for name in $declared; do
    printf '%s\n' "$listed" | grep -qx "$name" || {
      echo "the catalogue lacks $name"
      exit 1
    }
  done
  stubs=$(nm -D --defined-only "$stub" | awk '{print $3}' | sort)
  if [ "$stubs" != "$others" ]; then
    echo "the catalogue differs from $stub"
    exit 1
  fi
  break
done
readelf -d "$library" | grep -q 'soname: \[libcuda.so.1\]'
