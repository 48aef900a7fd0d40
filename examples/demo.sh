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
ninja -C "$build" programs
exec examples/failover/failover.sh --build "$build" "$@"
