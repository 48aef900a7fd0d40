// Calls from the rest of memory/ to memory that graphs allocate, which lies
// above it (graph/graph_memory.hpp).
#pragma once

#include "interposer/session/address_space.hpp"

#include <cuda.h>

#include <cstdint>
#include <optional>

namespace vgpu::interposer {

/// graph/ does this for memory that its nodes allocate, and registers it.
struct graph_memory_hooks {
  /// Gives the allocation that a node will make at this address when a launch
  /// comes to it.
  std::optional<allocation> (*planned)(device_address at) = nullptr;
  /// Frees it for cuMemFree and cuMemFreeAsync. Returns
  /// CUDA_ERROR_INVALID_VALUE where no allocation in use begins there.
  CUresult (*free)(device_address at) = nullptr;
  /// Frees all memory of the context with this id, as it ends.
  void (*discard)(std::uint64_t context) = nullptr;
};

} // namespace vgpu::interposer
