// Memory pools of stream-ordered allocation: bookkeeping only, as an
// allocation costs no round trip with or without a pool.
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

struct pool {
  explicit pool(int on_device) : device(on_device) {}

  const int device;
  std::uint64_t handle = 0;
  bool is_default = false;
  /// By which other processes know it, and handles of what is allocated in it
  /// are theirs; 0 for one that cannot be shared.
  std::uint64_t key = 0;
  /// Another process's: nothing is allocated from it here.
  bool imported = false;
  std::atomic<std::uint64_t> release_threshold{0};
  std::atomic<int> reuse_follow_events{1};
  std::atomic<int> reuse_opportunistic{1};
  std::atomic<int> reuse_dependencies{1};
  std::atomic<std::uint64_t> used{0};
  std::atomic<std::uint64_t> used_high{0};
};

/// The table holds all pools, and which of them a device allocates from.
struct pool_table {
  handle_table<pool> all{handle_kind::pool};
  /// By device; null until somebody asks for it.
  std::array<std::atomic<pool*>, 64> defaults{};
  std::array<std::atomic<pool*>, 64> currents{};
  std::mutex making;
};

/// Gives the process's own. Precondition: the driver's state is made.
handle_table<pool>& pools() noexcept;

/// The device's default pool; made on first use.
pool& default_pool(int device);
/// The device's current pool.
pool& current_pool(int device);
void set_current_pool(int device, pool& to);

/// Allocates from the pool.
CUresult allocate_from(context& in, pool& from, std::size_t bytes,
                       CUdeviceptr& out);
/// A descriptor of the pool, by which another process may have it too.
CUresult export_pool(const pool& what, int& file);
/// CUDA_ERROR_INVALID_VALUE for what is no pool's descriptor.
CUresult import_pool(int file, CUmemoryPool& out);

/// What was allocated is not in use any more, if it was of a pool. The driver
/// counts what cuMemFree freed as used for good (580.159).
void left_pool(const allocation& what);

} // namespace vgpu::interposer
