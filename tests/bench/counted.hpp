// Counts the calling thread's uses of the C library and the kernel. It replaces
// malloc and pthread_mutex_lock by functions that count.
#pragma once

#include <cstdint>

namespace vgpu::bench {

struct counts {
  std::uint64_t allocations = 0;
  std::uint64_t locks = 0;
  std::uint64_t faults = 0; // page faults
  std::uint64_t cpu_ns = 0;

  counts& operator+=(const counts& x) noexcept {
    allocations += x.allocations;
    locks += x.locks;
    faults += x.faults;
    cpu_ns += x.cpu_ns;
    return *this;
  }
  friend counts operator-(const counts& a, const counts& b) noexcept {
    return {a.allocations - b.allocations, a.locks - b.locks,
            a.faults - b.faults, a.cpu_ns - b.cpu_ns};
  }
};

/// Returns the counts of the calling thread since it began.
counts counts_now() noexcept;

} // namespace vgpu::bench
