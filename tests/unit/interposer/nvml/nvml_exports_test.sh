#!/bin/sh
# Checks that libnvidia-ml.so.1 exports NVML's functions, each once, and nothing
# else. Those that PyTorch and monitors look up must be among them.
set -eu
library=$1
export LC_ALL=C
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
others=$(printf '%s\n' "$exported" | grep -v '^nvml[A-Z]' || true)
if [ -n "$others" ]; then
  echo "it exports more than NVML: $others"
  exit 1
fi
# nvtop gives up where one of these is missing.
nvtop='MaxPcieLinkGeneration MaxPcieLinkWidth TemperatureThreshold ClockInfo
  MaxClockInfo UtilizationRates MemoryInfo_v2 CurrPcieLinkGeneration
  CurrPcieLinkWidth PcieThroughput FanSpeed Temperature PowerUsage
  EnforcedPowerLimit EncoderUtilization DecoderUtilization Name PciInfo_v3
  GraphicsRunningProcesses_v3 ComputeRunningProcesses_v3 ProcessUtilization'
# shellcheck disable=SC2086 # words
for name in $(printf 'nvmlDeviceGet%s ' $nvtop) nvmlInit nvmlInit_v2 nvmlShutdown nvmlErrorString \
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
