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

/// How many clusters of `size` blocks run at once where a multiprocessor holds
/// `blocks` of them. Here clusters need no group of multiprocessors: each runs
/// on one.
std::uint32_t clusters_at_once(int multiprocessors, int blocks, int size);

} // namespace vgpu::device::cpu
