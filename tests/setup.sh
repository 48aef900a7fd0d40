#!/usr/bin/env bash
# Installs what a Debian 12 lacks to build and test this project. Does nothing
# when all is there.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: setup.sh [--check]

Installs the Debian packages that building and testing need, and looks for the
CUDA toolkit's nvcc. With --check it installs nothing and fails when something
is missing.
EOF
}

check_only=false
case ${1-} in
  '') ;;
  --check) check_only=true ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

packages=(
  build-essential cmake ninja-build pkg-config ccache git python3
  capnproto libcapnp-dev libcaf-dev libzmq3-dev cppzmq-dev
  libboost-dev libboost-test-dev libcli11-dev libspdlog-dev nlohmann-json3-dev
  libzstd-dev liblz4-dev libxxhash-dev libsodium-dev libssl-dev libbenchmark-dev libpng-dev
  prometheus-cpp-dev libtoml11-dev libseccomp-dev
  clang clang-format clang-tidy libclang-rt-14-dev
  iproute2 jq etcd-server stress-ng groff-base zsh fish
  gcc-12-offload-nvptx gfortran-12
)

is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

command -v dpkg-query >/dev/null || {
  echo "setup.sh: this is no Debian; install by other means: ${packages[*]}" >&2
  exit 1
}
missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done

if ((${#missing[@]})); then
  if $check_only || ((EUID != 0)); then
    echo "setup.sh: these packages are missing; as root, run" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q </dev/null
  apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
fi

# shellcheck source=toolkit.sh
source "$(dirname "${BASH_SOURCE[0]}")/toolkit.sh"
