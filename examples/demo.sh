#!/usr/bin/env bash
# From a fresh Debian 12 to a GPU program that survives the loss of its node.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: demo.sh [OPTION OF failover.sh...]

Installs what is missing (tests/setup.sh), builds the programs and the examples,
and runs the failover demonstration. A second run changes nothing and starts at once.
EOF
}
case ${1-} in
  -h | --help) usage; exit 0 ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/default
cd "$root"
tests/setup.sh
# shellcheck source=../tests/toolkit.sh
source tests/toolkit.sh

if [[ ! -f $build/build.ninja ]]; then
  cmake --preset default
fi
# The programs, libraries and examples, not the tests.
mapfile -t targets < <(ninja -C "$build" -t targets all | sed -nE \
  -e 's/^((bin\/vgpu(-[a-z]+)?|lib\/lib(cuda|nvidia-ml)\.so(\.[0-9]+)?)): .*/\1/p' \
  -e 's/^(example_[a-z0-9_]+): phony$/\1/p' | sort -u)
ninja -C "$build" "${targets[@]}"
exec examples/failover/failover.sh --build "$build" "$@"
