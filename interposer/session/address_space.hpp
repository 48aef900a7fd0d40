// What is allocated in one window of addresses, chosen by the program's side.
#pragma once

#include "interposer/session/range_allocator.hpp"
#include "schema/base/ids.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace vgpu::interposer {

/// How an allocation came to be: says how it may be freed.
enum class memory_kind : std::uint8_t {
  device,     ///< cuMemAlloc and its kin
  pooled,     ///< cuMemAllocAsync: may also be freed in stream order
  global,     ///< a module's variable: not freed by itself
  pinned,     ///< cuMemHostAlloc
  array,      ///< an array's elements: only copies and textures reach them
  managed,    ///< cuMemAllocManaged
  mapped,     ///< cuMemMap: see virtual_memory.hpp
  graph,      ///< a graph's own, in use: see graph_memory.hpp
  imported,   ///< another process's: see sharing.hpp
  registered, ///< the program's: see registered_memory.hpp
};

/// One allocation. A value.
struct allocation {
  device_address address = 0;
  std::uint64_t bytes = 0; ///< as asked for
  memory_kind kind = memory_kind::device;
  std::uint64_t context = 0; ///< id of the owning context
  unsigned flags = 0;        ///< as given to cuMemHostAlloc
  std::uint64_t serial = 0;  ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  std::uint64_t pool = 0;    ///< handle of the memory pool, or 0
  bool managed = false;      ///< the program may touch it too
  std::uint8_t device = 0;   ///< that was current; of host memory

  bool holds(device_address at, std::uint64_t count) const noexcept {
    return at >= address && count <= bytes && at - address <= bytes - count;
  }
};

/// One window. Blocks below 1 MiB are packed at 512-byte steps; larger ones
/// begin at a granule, so that few granules are shared. Managed memory has its
/// pages to itself.
///
/// A freed range is handed out again only when the work that was in the log
/// before it was freed is known to be done (settle): freeing does not wait for
/// a kernel that still writes there. Thread-safe.
class address_space {
public:
  /// Allocates in [base, base + bytes); `quota` bounds the bytes asked for;
  /// `step` is the smallest alignment, a power of two. `changed`, where there
  /// is one, holds a later quota once it is not 0; `shown` is told what used()
  /// is. Both outlive this.
  address_space(device_address base, std::uint64_t bytes, std::uint64_t quota,
                std::uint64_t step,
                const std::atomic<std::uint64_t>* changed = nullptr,
                std::atomic<std::uint64_t>* shown = nullptr);

  enum class refusal : std::uint8_t { none, quota, addresses };

  /// Fills in address and serial. `addresses` means that what was freed must
  /// be settled first.
  refusal allocate(allocation& what);

  /// Makes a range known that somebody else placed.
  void adopt(allocation what);

  /// The allocation that begins at `address` is gone; nothing when there is
  /// none. It still counts, and its range is not free, until it is retired.
  std::optional<allocation> take(device_address address);

  /// As take(), for all that the context allocated.
  std::vector<allocation> take_all(std::uint64_t context);

  /// The free is in the log at `position`: the bytes count no more, and the
  /// range is free again once `position` is settled.
  void retire(const allocation& what, std::uint64_t position);

  /// Work at log positions up to `position` is done.
  void settle(std::uint64_t position);

  // Addresses and bytes apart, for memory that the program places by itself.

  /// Takes addresses alone; nothing where what was freed must be settled first.
  std::optional<device_address> reserve(std::uint64_t bytes,
                                        std::uint64_t alignment);
  /// Gives addresses back once `position` is settled.
  void unreserve(device_address address, std::uint64_t bytes,
                 std::uint64_t position);
  /// Counts bytes against the quota; false where it does not allow them.
  bool charge(std::uint64_t bytes);
  /// Counts them whether the quota allows them or not.
  void take_on(std::uint64_t bytes);
  void refund(std::uint64_t bytes);

  /// The allocation that `address` lies in.
  std::optional<allocation> find(device_address address) const;
  /// Likewise, for what was adopted and lies outside the window. Cheap where
  /// there is nothing of the kind.
  std::optional<allocation> find_beyond(device_address address) const;

  std::uint64_t quota() const noexcept {
    auto now = changed_ == nullptr ? std::uint64_t{0}
                                   : changed_->load(std::memory_order_relaxed);
    return now == 0 ? quota_ : now;
  }
  std::uint64_t used() const;

private:
  bool is_beyond(const allocation& x) const noexcept {
    return x.address - base_ >= window_bytes;
  }

  struct freed {
    std::uint64_t position;
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  std::uint64_t step_of(const allocation& x) const noexcept;
  std::uint64_t rounded(const allocation& x) const noexcept;
  /// Precondition: the lock is held.
  void use(std::uint64_t now) noexcept;
  const device_address base_;
  const std::uint64_t quota_;
  const std::uint64_t step_;
  const std::atomic<std::uint64_t>* const changed_;
  std::atomic<std::uint64_t>* const shown_;
  mutable std::shared_mutex mutex_;
  range_allocator ranges_;
  std::map<device_address, allocation> live_;
  std::atomic<std::size_t> beyond_{0}; // of live_, outside the window
  std::deque<freed> freed_;
  std::uint64_t used_ = 0;
};

/// Grows with each allocation of the process; never 0.
std::uint64_t next_serial() noexcept;

} // namespace vgpu::interposer
