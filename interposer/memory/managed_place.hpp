// The places that the program may choose for managed memory.
#pragma once

#include "interposer/memory/managed_advice.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <cuda.h>

#include <string>

#include <unistd.h>

namespace vgpu::interposer {

/// Converts a place as calls before CUDA 12.2 name it: a device, or
/// CU_DEVICE_CPU.
inline advice::location place_of(CUdevice x) noexcept {
  return x == CU_DEVICE_CPU ? advice::location{CU_MEM_LOCATION_TYPE_HOST, 0}
                            : advice::location{CU_MEM_LOCATION_TYPE_DEVICE, x};
}

/// Checks a place. Returns CUDA_ERROR_INVALID_DEVICE for a device that does not
/// exist, and CUDA_ERROR_INVALID_VALUE for an unknown kind of place.
inline CUresult check_place(advice::location x) noexcept {
  switch (x.first) {
  case CU_MEM_LOCATION_TYPE_DEVICE: {
    auto known = process::the_session().devices().size();
    return x.second >= 0 && static_cast<std::size_t>(x.second) < known
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
  }
  case CU_MEM_LOCATION_TYPE_HOST:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Tells whether the host has this NUMA node. A host without nodes counts as
/// node 0.
inline bool is_numa_node(int id) {
  auto path = "/sys/devices/system/node/node" + std::to_string(id);
  return id == 0 || (id > 0 && ::access(path.c_str(), F_OK) == 0);
}

/// Checks where pinned memory is to be made, and with which ways of sharing
/// (CUmemAllocationHandleType). Returns CUDA_ERROR_INVALID_VALUE where CUDA has
/// no such memory: NUMA_CURRENT is no place of memory, and HOST is not shared.
/// Returns CUDA_ERROR_NOT_SUPPORTED for other memory of the host, which callers
/// handle themselves where a device announces it.
inline CUresult check_place_of_pinned(const CUmemLocation& x,
                                      unsigned shared_by) noexcept {
  switch (x.type) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return check_place({x.type, x.id});
  case CU_MEM_LOCATION_TYPE_HOST:
    return shared_by == CU_MEM_HANDLE_TYPE_NONE ? CUDA_ERROR_NOT_SUPPORTED
                                                : CUDA_ERROR_INVALID_VALUE;
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    return CUDA_ERROR_NOT_SUPPORTED;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

} // namespace vgpu::interposer
