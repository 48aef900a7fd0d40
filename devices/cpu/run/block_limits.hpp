// Occupancy: how many blocks fit on a multiprocessor.
#pragma once

#include <cstdint>

namespace vgpu::device::cpu {

/// Says what resources one block needs.
struct block_needs {
  std::uint32_t threads = 1;
  std::uint32_t registers = 16; // per thread
  std::uint64_t shared = 0;     // bytes, static and dynamic
};

/// Returns how many blocks fit, by the rules of the CUDA C++ Programming Guide
/// ("Occupancy Calculator") and the limits of compute capability 9.0 that
/// cpu_properties.cpp reports. Returns 0 when not even one block fits.
int blocks_per_multiprocessor(const block_needs& x);

} // namespace vgpu::device::cpu
