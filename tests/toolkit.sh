# shellcheck shell=bash
# Sourced: puts nvcc into PATH, wherever the CUDA toolkit lies.
if ! command -v nvcc >/dev/null; then
  # The newest of several toolkits.
  for bin in /usr/local/cuda/bin $(printf '%s\n' /usr/local/cuda-*/bin |
    sort -rV); do
    if [[ -x $bin/nvcc ]]; then
      PATH=$PATH:$bin
      break
    fi
  done
fi
if ! command -v nvcc >/dev/null; then
  cat >&2 <<'EOF'
There is no nvcc in PATH or in /usr/local/cuda*/bin. Install the CUDA 13
toolkit (its driver is not needed) from NVIDIA's repository for Debian 12:

  wget https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb
  dpkg -i cuda-keyring_1.1-1_all.deb
  apt-get update
  apt-get install cuda-nvcc-13-0 cuda-cudart-dev-13-0 cuda-driver-dev-13-0

EOF
  exit 1
fi
