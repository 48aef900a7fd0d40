// Memory pools of stream-ordered allocation. They are bookkeeping only, because
// an allocation costs no round trip with or without a pool. Memory that a pool
// holds without using it counts against the quota, until other memory needs it.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/address_space.hpp"
#include "interposer/session/handle_table.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace vgpu::interposer {

class stream;

/// Counts the memory of one pool, in bytes. A pool reserves whole granules, and
/// keeps what it has reserved until it is trimmed. Not thread-safe.
class pool_book {
public:
  /// Counts an allocation.
  void use(std::uint64_t bytes) noexcept;
  /// Stops counting an allocation. What is reserved stays.
  void leave(std::uint64_t bytes) noexcept { used_ -= bytes; }
  /// Tells whether the memory in use stays within `most` bytes, in whole
  /// granules, with a further allocation.
  bool has_room(std::uint64_t bytes, std::uint64_t most) const noexcept;
  /// Releases what is reserved beyond `keep` bytes and the memory in use.
  void trim(std::uint64_t keep) noexcept;
  /// Sets the marks to the present values.
  void reset_used_high() noexcept { used_high_ = used_; }
  void reset_reserved_high() noexcept { reserved_high_ = reserved_; }

  std::uint64_t used() const noexcept { return used_; }
  std::uint64_t used_high() const noexcept { return used_high_; }
  std::uint64_t reserved() const noexcept { return reserved_; }
  std::uint64_t reserved_high() const noexcept { return reserved_high_; }
  /// Returns the bytes that the pool holds without using them.
  std::uint64_t idle() const noexcept;

private:
  std::uint64_t used_ = 0, used_high_ = 0;
  std::uint64_t reserved_ = 0, reserved_high_ = 0;
};

/// Host memory that was freed in stream order. Work before the free may still
/// use it.
struct left_block {
  allocation what;
  stream_id in; // the stream of the free
  /// Says how far that stream is done.
  std::shared_ptr<const std::atomic<std::uint64_t>> done_until;
  std::uint8_t device;    // of that stream
  std::uint64_t position; // the log position of the free
};

/// Represents a CUmemoryPool.
struct pool {
  explicit pool(int on_device, std::uint64_t at_most = 0)
      : device(on_device), where{CU_MEM_LOCATION_TYPE_DEVICE, {on_device}},
        max_size(at_most) {}
  /// Makes a pool of host memory. Its calls go to `by_device`.
  pool(CUmemLocation on_host, int by_device, std::uint64_t at_most)
      : device(by_device), where(on_host), max_size(at_most) {}
  /// Gives up its reserve.
  ~pool();

  const int device;
  const CUmemLocation where;
  bool on_host() const noexcept {
    return where.type != CU_MEM_LOCATION_TYPE_DEVICE;
  }
  /// The bytes that the pool may have in use, or 0 where only the device limits
  /// it.
  const std::uint64_t max_size;
  /// Held during an allocation from a pool with such a limit, so that no two
  /// allocations take the same room.
  std::mutex filling;
  std::uint64_t handle = 0;
  bool is_default = false;
  /// Identifies the pool to other processes, and signs the handles of its
  /// allocations. It is 0 where the pool cannot be shared.
  std::uint64_t key = 0;
  /// Tells whether the pool is another process's. This process never allocates
  /// from such a pool.
  bool imported = false;
  std::atomic<int> reuse_follow_events{1};
  std::atomic<int> reuse_opportunistic{1};
  std::atomic<int> reuse_dependencies{1};

  /// Sets the bytes that stay reserved when the program waits.
  void set_threshold(std::uint64_t bytes);
  std::uint64_t threshold() const;
  /// Releases what is reserved beyond `keep` bytes and the memory in use.
  void trim(std::uint64_t keep);
  /// Releases what is reserved beyond the threshold, as the program waits.
  void waited();
  /// Returns a copy of the book.
  pool_book book() const;

  // -- a pool of host memory

  /// Keeps a freed block for later allocations.
  void keep(const left_block& x);
  /// Takes a block of exactly this size that work in this stream may use now.
  std::optional<allocation> take(std::uint64_t bytes, stream_id in);
  /// Takes all blocks.
  std::vector<left_block> take_all();
  /// Sets and tells whether devices have access. It is not enforced.
  void allow(int by_device, CUmemAccess_flags flags);
  CUmemAccess_flags access(int by_device) const;
  /// Changes the book, and what the device's space counts for this pool.
  template <class Change>
  void change(const Change& f) {
    std::lock_guard guard{mutex_};
    f(book_);
    count();
  }

private:
  /// Counts the idle part of the reserve against the quota, if it is a
  /// device's. Precondition: the lock is held.
  void count();
  /// Takes blocks that no work uses, beyond the idle part of the reserve.
  /// Precondition: the lock is held.
  std::vector<left_block> take_unused();

  mutable std::mutex mutex_;
  pool_book book_;
  std::vector<left_block> left_;
  std::uint64_t left_bytes_ = 0;
  std::map<int, CUmemAccess_flags> access_;
  std::uint64_t threshold_ = 0;
  std::uint64_t counted_ = 0;
  bool armed_ = false; // waited() has something to do
};

/// Holds all pools, and the pools that each device allocates from.
struct pool_table {
  handle_table<pool> all{handle_kind::pool};
  /// Holds each device's default pool. An entry is null until its first use.
  std::array<std::atomic<pool*>, 64> defaults{};
  /// Holds each device's current pool. An entry is null where the program set
  /// none.
  std::array<std::atomic<pool*>, 64> currents{};
  /// Hold the default and the current pool of places on the host, by type and
  /// NUMA node. `making` guards them.
  std::map<std::pair<int, int>, pool*> host_defaults, host_currents;
  /// Holds blocks of pools that have ended. `making` guards them.
  std::vector<left_block> orphans;
  std::mutex making;
  /// Held shared while a pool of `all` is used that another thread may destroy.
  std::shared_mutex ending;
};

/// Returns the process's pools by handle. Precondition: the driver's state is
/// made.
handle_table<pool>& pools() noexcept;

/// Returns the device's default pool. The first use makes it.
pool& default_pool(int device);
/// Returns the device's current pool.
pool& current_pool(int device);
void set_current_pool(int device, pool& to);

/// Return and set the pools of a place on the host. Calls of a new pool go to
/// `by_device`.
pool& default_pool(CUmemLocation on_host, int by_device);
pool& current_pool(CUmemLocation on_host, int by_device);
void set_current_pool(CUmemLocation on_host, pool& to);

/// Destroys a pool, which must not be a default one. Its allocations live on.
void destroy_pool(pool& x);

/// Releases the idle reserves of all pools of a device, because other memory
/// needs them.
void release_reserves(std::uint8_t device);
/// Releases what pools reserve beyond their thresholds, as the program waits.
void trim_pools_after_wait();

/// Allocates from the pool. Returns CUDA_ERROR_OUT_OF_MEMORY where the pool
/// would exceed its maximum.
CUresult allocate_from(stream& in, pool& from, std::size_t bytes,
                       CUdeviceptr& out);
/// Frees memory of a pool in stream order.
CUresult free_in_order(stream& in, CUdeviceptr at);
/// Makes a descriptor by which another process can import the pool.
CUresult export_pool(const pool& what, int& file);
/// Imports a pool. Returns CUDA_ERROR_INVALID_VALUE where the descriptor is not
/// a pool's.
CUresult import_pool(int file, CUmemoryPool& out);

/// Subtracts an allocation from the used bytes of its pool, if it has one. As
/// in a driver (580.159), memory that cuMemFree freed counts as used forever.
void left_pool(const allocation& what);

} // namespace vgpu::interposer
