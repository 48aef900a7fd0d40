// Calls about properties that a vGPU does not have or this library does not
// know: present clocks, temperature, power, links, ECC, fans. Each returns
// NVML_ERROR_NOT_SUPPORTED, as for a real device without the property. Programs
// that look up a call that is missing here get NVML_ERROR_FUNCTION_NOT_FOUND.
#include "interposer/nvml/nvml_session.hpp"

using vgpu::nvml::code;

// A stub ignores its arguments, which C permits.
#define VGPU_NVML_REFUSED(name)                                                \
  VGPU_NVML(name)() {                                                          \
    return vgpu::nvml::is_initialized() ? code::not_supported                  \
                                        : code::uninitialized;                 \
  }

// -- the load of parts of a device, now and before
VGPU_NVML_REFUSED(nvmlDeviceGetEncoderUtilization)
VGPU_NVML_REFUSED(nvmlDeviceGetDecoderUtilization)
VGPU_NVML_REFUSED(nvmlDeviceGetJpgUtilization)
VGPU_NVML_REFUSED(nvmlDeviceGetOfaUtilization)
VGPU_NVML_REFUSED(nvmlDeviceGetProcessesUtilizationInfo)
VGPU_NVML_REFUSED(nvmlDeviceGetSamples)
VGPU_NVML_REFUSED(nvmlDeviceGetAccountingMode)
VGPU_NVML_REFUSED(nvmlDeviceGetAccountingPids)
VGPU_NVML_REFUSED(nvmlDeviceGetAccountingStats)

// -- clocks, power, temperature, fans
VGPU_NVML_REFUSED(nvmlDeviceGetApplicationsClock)
VGPU_NVML_REFUSED(nvmlDeviceGetClock)
VGPU_NVML_REFUSED(nvmlDeviceGetClockInfo)
VGPU_NVML_REFUSED(nvmlDeviceGetCurrentClocksEventReasons)
VGPU_NVML_REFUSED(nvmlDeviceGetCurrentClocksThrottleReasons)
VGPU_NVML_REFUSED(nvmlDeviceGetSupportedClocksThrottleReasons)
VGPU_NVML_REFUSED(nvmlDeviceGetEnforcedPowerLimit)
VGPU_NVML_REFUSED(nvmlDeviceGetPowerManagementDefaultLimit)
VGPU_NVML_REFUSED(nvmlDeviceGetPowerManagementLimit)
VGPU_NVML_REFUSED(nvmlDeviceGetPowerManagementLimitConstraints)
VGPU_NVML_REFUSED(nvmlDeviceGetPowerManagementMode)
VGPU_NVML_REFUSED(nvmlDeviceGetPowerState)
VGPU_NVML_REFUSED(nvmlDeviceGetPowerUsage)
VGPU_NVML_REFUSED(nvmlDeviceGetPerformanceState)
VGPU_NVML_REFUSED(nvmlDeviceGetTotalEnergyConsumption)
VGPU_NVML_REFUSED(nvmlDeviceGetFanSpeed)
VGPU_NVML_REFUSED(nvmlDeviceGetFanSpeed_v2)
VGPU_NVML_REFUSED(nvmlDeviceGetNumFans)
VGPU_NVML_REFUSED(nvmlDeviceGetTemperature)
VGPU_NVML_REFUSED(nvmlDeviceGetTemperatureV)
VGPU_NVML_REFUSED(nvmlDeviceGetTemperatureThreshold)
VGPU_NVML_REFUSED(nvmlDeviceGetThermalSettings)

// -- links and topology
VGPU_NVML_REFUSED(nvmlDeviceGetCurrPcieLinkGeneration)
VGPU_NVML_REFUSED(nvmlDeviceGetCurrPcieLinkWidth)
VGPU_NVML_REFUSED(nvmlDeviceGetMaxPcieLinkGeneration)
VGPU_NVML_REFUSED(nvmlDeviceGetMaxPcieLinkWidth)
VGPU_NVML_REFUSED(nvmlDeviceGetPcieReplayCounter)
VGPU_NVML_REFUSED(nvmlDeviceGetPcieThroughput)
VGPU_NVML_REFUSED(nvmlDeviceGetNvLinkCapability)
VGPU_NVML_REFUSED(nvmlDeviceGetNvLinkRemoteDeviceType)
VGPU_NVML_REFUSED(nvmlDeviceGetNvLinkRemotePciInfo)
VGPU_NVML_REFUSED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
VGPU_NVML_REFUSED(nvmlDeviceGetNvLinkState)
VGPU_NVML_REFUSED(nvmlDeviceGetNvLinkVersion)
VGPU_NVML_REFUSED(nvmlDeviceGetGpuFabricInfo)
VGPU_NVML_REFUSED(nvmlDeviceGetGpuFabricInfoV)
VGPU_NVML_REFUSED(nvmlDeviceGetTopologyCommonAncestor)
VGPU_NVML_REFUSED(nvmlDeviceGetTopologyNearestGpus)
VGPU_NVML_REFUSED(nvmlDeviceOnSameBoard)
VGPU_NVML_REFUSED(nvmlDeviceGetCpuAffinity)
VGPU_NVML_REFUSED(nvmlDeviceGetMemoryAffinity)
VGPU_NVML_REFUSED(nvmlDeviceSetCpuAffinity)

// -- the board
VGPU_NVML_REFUSED(nvmlDeviceGetBAR1MemoryInfo)
VGPU_NVML_REFUSED(nvmlDeviceGetBoardId)
VGPU_NVML_REFUSED(nvmlDeviceGetBoardPartNumber)
VGPU_NVML_REFUSED(nvmlDeviceGetBrand)
VGPU_NVML_REFUSED(nvmlDeviceGetHandleBySerial)
VGPU_NVML_REFUSED(nvmlDeviceGetInforomImageVersion)
VGPU_NVML_REFUSED(nvmlDeviceGetInforomVersion)
VGPU_NVML_REFUSED(nvmlDeviceGetMultiGpuBoard)
VGPU_NVML_REFUSED(nvmlDeviceGetSerial)
VGPU_NVML_REFUSED(nvmlDeviceGetVbiosVersion)

// -- errors and events
VGPU_NVML_REFUSED(nvmlDeviceGetEccMode)
VGPU_NVML_REFUSED(nvmlDeviceGetDetailedEccErrors)
VGPU_NVML_REFUSED(nvmlDeviceGetMemoryErrorCounter)
VGPU_NVML_REFUSED(nvmlDeviceGetTotalEccErrors)
VGPU_NVML_REFUSED(nvmlDeviceGetRemappedRows)
VGPU_NVML_REFUSED(nvmlDeviceGetRetiredPages)
VGPU_NVML_REFUSED(nvmlDeviceGetSupportedEventTypes)
VGPU_NVML_REFUSED(nvmlDeviceRegisterEvents)
VGPU_NVML_REFUSED(nvmlEventSetCreate)
VGPU_NVML_REFUSED(nvmlEventSetFree)
VGPU_NVML_REFUSED(nvmlEventSetWait)
VGPU_NVML_REFUSED(nvmlEventSetWait_v2)

// -- MIG partitions and NVIDIA's vGPUs
VGPU_NVML_REFUSED(nvmlDeviceGetComputeInstanceId)
VGPU_NVML_REFUSED(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)
VGPU_NVML_REFUSED(nvmlDeviceGetGpuInstanceId)
VGPU_NVML_REFUSED(nvmlDeviceGetMaxMigDeviceCount)
VGPU_NVML_REFUSED(nvmlDeviceGetMigDeviceHandleByIndex)
VGPU_NVML_REFUSED(nvmlDeviceGetMigMode)
VGPU_NVML_REFUSED(nvmlDeviceIsMigDeviceHandle)
VGPU_NVML_REFUSED(nvmlDeviceGetMPSComputeRunningProcesses)
VGPU_NVML_REFUSED(nvmlDeviceGetMPSComputeRunningProcesses_v2)
VGPU_NVML_REFUSED(nvmlDeviceGetMPSComputeRunningProcesses_v3)
VGPU_NVML_REFUSED(nvmlDeviceGetVirtualizationMode)
VGPU_NVML_REFUSED(nvmlDeviceGetAttributes)
VGPU_NVML_REFUSED(nvmlDeviceGetAttributes_v2)
VGPU_NVML_REFUSED(nvmlDeviceGetFieldValues)
