// How many blocks fit a multiprocessor, by CUDA's own arithmetic.
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

/// What one block takes.
struct block_needs {
  std::uint32_t threads = 1;
  std::uint32_t registers = 16; // per thread
  std::uint64_t shared = 0;     // static and dynamic, in bytes
};

/// CUDA C++ Programming Guide, "Occupancy Calculator", with the limits of
/// compute capability 9.0 that properties.cpp reports. 0 when a single block
/// does not fit.
int blocks_per_multiprocessor(const block_needs& x);

} // namespace vgpu::device::cpu
