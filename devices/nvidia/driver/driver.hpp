// NVIDIA's driver: how it is found, opened by absolute path and called through
// a table.
#pragma once

#include "schema/base/fault.hpp"

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

namespace vgpu::device::nvidia {

// These are all entry points of the driver that we use. open_driver() asks for
// each by name in version `oldest_version`, whose signatures are those of
// cuda.h.
// clang-format off
#define VGPU_NVIDIA_CALLS(call)                     \
  call(cuInit)                                      \
  call(cuDriverGetVersion)                          \
  call(cuGetErrorName)                              \
  call(cuDeviceGetCount)                            \
  call(cuDeviceGet)                                 \
  call(cuDeviceGetName)                             \
  call(cuDeviceGetUuid)                             \
  call(cuDeviceTotalMem)                            \
  call(cuDeviceGetAttribute)                        \
  call(cuDeviceCanAccessPeer)                       \
  call(cuDevicePrimaryCtxRetain)                    \
  call(cuCtxSetCurrent)                             \
  call(cuCtxSynchronize)                            \
  call(cuCtxGetLimit)                               \
  call(cuCtxSetLimit)                               \
  call(cuCtxResetPersistingL2Cache)                 \
  call(cuMemAddressReserve)                         \
  call(cuMemAddressFree)                            \
  call(cuMemCreate)                                 \
  call(cuMemRelease)                                \
  call(cuMemMap)                                    \
  call(cuMemUnmap)                                  \
  call(cuMemSetAccess)                              \
  call(cuMemExportToShareableHandle)                \
  call(cuMemImportFromShareableHandle)              \
  call(cuMemHostRegister)                           \
  call(cuMemHostUnregister)                         \
  call(cuPointerGetAttribute)                       \
  call(cuModuleLoadDataEx)                          \
  call(cuModuleUnload)                              \
  call(cuLibraryLoadData)                           \
  call(cuLibraryGetModule)                          \
  call(cuLibraryUnload)                             \
  call(cuLinkCreate)                                \
  call(cuLinkAddData)                               \
  call(cuLinkComplete)                              \
  call(cuLinkDestroy)                               \
  call(cuModuleGetFunction)                         \
  call(cuModuleGetFunctionCount)                    \
  call(cuModuleEnumerateFunctions)                  \
  call(cuModuleGetGlobal)                           \
  call(cuFuncGetName)                               \
  call(cuFuncLoad)                                  \
  call(cuFuncGetParamInfo)                          \
  call(cuFuncGetAttribute)                          \
  call(cuFuncSetAttribute)                          \
  call(cuOccupancyMaxActiveClusters)                \
  call(cuLaunchKernel)                              \
  call(cuLaunchKernelEx)                            \
  call(cuStreamCreateWithPriority)                  \
  call(cuStreamDestroy)                             \
  call(cuStreamQuery)                               \
  call(cuStreamSetAttribute)                        \
  call(cuStreamWaitEvent)                           \
  call(cuStreamWaitValue32)                         \
  call(cuStreamWaitValue64)                         \
  call(cuStreamWriteValue32)                        \
  call(cuEventCreate)                               \
  call(cuEventDestroy)                              \
  call(cuEventRecord)                               \
  call(cuEventQuery)                                \
  call(cuEventSynchronize)                          \
  call(cuEventElapsedTime)                          \
  call(cuIpcGetEventHandle)                         \
  call(cuIpcOpenEventHandle)                        \
  call(cuMemcpyAsync)                               \
  call(cuMemcpyHtoDAsync)                           \
  call(cuMemcpy2DAsync)                             \
  call(cuMemsetD8Async)                             \
  call(cuMemsetD16Async)                            \
  call(cuMemsetD32Async)                            \
  call(cuMemsetD2D8Async)                           \
  call(cuMemsetD2D16Async)                          \
  call(cuMemsetD2D32Async)                          \
  call(cuMemcpy3DAsync)                             \
  call(cuArray3DCreate)                             \
  call(cuArrayDestroy)                              \
  call(cuMipmappedArrayCreate)                      \
  call(cuMipmappedArrayDestroy)                     \
  call(cuMipmappedArrayGetLevel)                    \
  call(cuTexObjectCreate)                           \
  call(cuTexObjectDestroy)                          \
  call(cuSurfObjectCreate)                          \
  call(cuSurfObjectDestroy)                         \
  call(cuTensorMapEncodeTiled)                      \
  call(cuTensorMapEncodeIm2col)                     \
  call(cuTensorMapReplaceAddress)
// These entry points came later, in the given version. They are null where the
// driver is older.
#define VGPU_NVIDIA_LATER_CALLS(call)               \
  call(cuTensorMapEncodeIm2colWide, 12080)          \
  call(cuCheckpointProcessGetState, 12080)          \
  call(cuCheckpointProcessLock, 12080)              \
  call(cuCheckpointProcessCheckpoint, 12080)        \
  call(cuCheckpointProcessRestore, 12080)           \
  call(cuCheckpointProcessUnlock, 12080)
// clang-format on

/// CUDA 12.4 (driver 550) is the first version that lists a module's kernels
/// and their parameters.
inline constexpr int oldest_version = 12040;

/// Holds the driver's entry points, named as cuda.h names them. Thread-safe as
/// the driver is. An opened driver stays in the process.
struct driver {
#define VGPU_NVIDIA_MEMBER(name) decltype(&::name) name = nullptr;
  VGPU_NVIDIA_CALLS(VGPU_NVIDIA_MEMBER)
#undef VGPU_NVIDIA_MEMBER
#define VGPU_NVIDIA_MEMBER(name, since) decltype(&::name) name = nullptr;
  VGPU_NVIDIA_LATER_CALLS(VGPU_NVIDIA_MEMBER)
#undef VGPU_NVIDIA_MEMBER

  std::string path;

  /// Makes a fault with this error and the text "what: CUDA_ERROR_...".
  fault failed(CUresult why, const std::string& what) const;
  /// Returns success, or failed() where `outcome` is an error.
  status check(CUresult outcome, const char* what) const {
    if (outcome == CUDA_SUCCESS) [[likely]]
      return {};
    return failed(outcome, what);
  }
};

/// Shares the opened driver between the parts of a device.
using driver_ptr = std::shared_ptr<const driver>;

/// Returns the paths at which to look for the driver, in order. Where
/// $VGPU_NVIDIA_DRIVER is set it is the only one.
std::vector<std::string> driver_places();

/// Returns the first of driver_places() that exists and is not our own
/// libcuda.so.1 under any name, or CUDA_ERROR_NO_DEVICE where there is none.
result<std::string> find_driver();

/// Opens the driver at this absolute path. Refuses our own libcuda.so.1 and a
/// driver that lacks an entry point.
result<driver_ptr> open_driver(const std::string& path);

} // namespace vgpu::device::nvidia
