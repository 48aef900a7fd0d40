// Calls from memory/ to graph/, a folder above it, about memory that graphs
// allocate (graph/graph_memory.hpp).
#pragma once

#include "interposer/session/address_space.hpp"

#include <cuda.h>

#include <cstdint>
#include <optional>

namespace vgpu::interposer {

/// Holds the functions of graph/ for memory that its nodes allocate. graph/
/// registers them.
struct graph_memory_hooks {
  /// Returns the allocation that a node will make at this address when a launch
  /// reaches the node.
  std::optional<allocation> (*planned)(device_address at) = nullptr;
  /// Frees such memory for cuMemFree and cuMemFreeAsync. Returns
  /// CUDA_ERROR_INVALID_VALUE where no allocation in use begins there.
  CUresult (*free)(device_address at) = nullptr;
  /// Frees all memory of the context with this id, as it ends.
  void (*discard)(std::uint64_t context) = nullptr;
};

} // namespace vgpu::interposer
