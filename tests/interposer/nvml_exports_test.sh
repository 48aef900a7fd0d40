#!/bin/sh
# libnvidia-ml.so.1 exports NVML's functions and nothing else, each once, among
# them those that PyTorch and monitors look up.
set -eu
library=$1
export LC_ALL=C
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
others=$(printf '%s\n' "$exported" | grep -v '^nvml[A-Z]' || true)
if [ -n "$others" ]; then
  echo "it exports more than NVML: $others"
  exit 1
fi
for name in nvmlInit nvmlInit_v2 nvmlShutdown nvmlErrorString \
            nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 \
            nvmlDeviceGetHandleByPciBusId_v2 nvmlDeviceGetUUID \
            nvmlDeviceGetComputeRunningProcesses \
            nvmlDeviceGetNvLinkRemoteDeviceType \
            nvmlDeviceGetNvLinkRemotePciInfo_v2 \
            nvmlSystemGetCudaDriverVersion_v2; do
  if ! printf '%s\n' "$exported" | grep -qx "$name"; then
    echo "it does not export $name"
    exit 1
  fi
done
readelf -d "$library" | grep -q 'soname: \[libnvidia-ml.so.1\]'
