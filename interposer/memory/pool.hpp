// Memory pools of stream-ordered allocation. They are bookkeeping only, because
// an allocation costs no round trip with or without a pool.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/address_space.hpp"
#include "interposer/session/handle_table.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace vgpu::interposer {

/// Represents a CUmemoryPool.
struct pool {
  explicit pool(int on_device) : device(on_device) {}

  const int device;
  std::uint64_t handle = 0;
  bool is_default = false;
  /// Identifies the pool to other processes, and signs the handles of its
  /// allocations. It is 0 where the pool cannot be shared.
  std::uint64_t key = 0;
  /// Tells whether the pool is another process's. This process never allocates
  /// from such a pool.
  bool imported = false;
  std::atomic<std::uint64_t> release_threshold{0};
  std::atomic<int> reuse_follow_events{1};
  std::atomic<int> reuse_opportunistic{1};
  std::atomic<int> reuse_dependencies{1};
  std::atomic<std::uint64_t> used{0};
  std::atomic<std::uint64_t> used_high{0};
};

/// Holds all pools, and the pools that each device allocates from.
struct pool_table {
  handle_table<pool> all{handle_kind::pool};
  /// Holds each device's default pool. An entry is null until its first use.
  std::array<std::atomic<pool*>, 64> defaults{};
  /// Holds each device's current pool. An entry is null where the program set
  /// none.
  std::array<std::atomic<pool*>, 64> currents{};
  std::mutex making;
};

/// Returns the process's pools by handle. Precondition: the driver's state is
/// made.
handle_table<pool>& pools() noexcept;

/// Returns the device's default pool. The first use makes it.
pool& default_pool(int device);
/// Returns the device's current pool.
pool& current_pool(int device);
void set_current_pool(int device, pool& to);

/// Allocates from the pool.
CUresult allocate_from(context& in, pool& from, std::size_t bytes,
                       CUdeviceptr& out);
/// Makes a descriptor by which another process can import the pool.
CUresult export_pool(const pool& what, int& file);
/// Imports a pool. Returns CUDA_ERROR_INVALID_VALUE where the descriptor is not
/// a pool's.
CUresult import_pool(int file, CUmemoryPool& out);

/// Subtracts an allocation from the used bytes of its pool, if it has one. As
/// in a driver (580.159), memory that cuMemFree freed counts as used forever.
void left_pool(const allocation& what);

} // namespace vgpu::interposer
