// Allocations in one window of addresses. The interposer chooses the addresses.
#pragma once

#include "interposer/session/range_allocator.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/memory_account.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace vgpu::interposer {

/// Says which call made an allocation, and so how it may be freed.
enum class memory_kind : std::uint8_t {
  device,     ///< made by cuMemAlloc or a related call
  pooled,     ///< by cuMemAllocAsync; cuMemFreeAsync may free it
  global,     ///< a module's variable, which ends with the module
  pinned,     ///< by cuMemHostAlloc
  array,      ///< an array's elements, for copies and textures
  managed,    ///< by cuMemAllocManaged
  mapped,     ///< by cuMemMap (virtual_memory.hpp)
  graph,      ///< by a node of a graph (graph_memory.hpp)
  imported,   ///< another process's (sharing.hpp)
  registered, ///< made and registered by the program
};

/// Describes a range of addresses that a call allocated. It is a value.
struct allocation {
  device_address address = 0;
  /// Holds the size that the program asked for, in bytes.
  std::uint64_t bytes = 0;
  memory_kind kind = memory_kind::device;
  /// Holds the id of the owning context.
  std::uint64_t context = 0;
  /// Holds the flags that the program passed to cuMemHostAlloc.
  unsigned flags = 0;
  /// Holds the value of CU_POINTER_ATTRIBUTE_BUFFER_ID.
  std::uint64_t serial = 0;
  /// Holds the handle of the memory pool, or 0 for none.
  std::uint64_t pool = 0;
  /// Tells whether the program may access the memory too.
  bool managed = false;
  /// Holds the device. For host memory it is the one that was current at the
  /// allocation.
  std::uint8_t device = 0;
  /// Holds the address of the first byte in the host window, for memory of the
  /// host that the program maps elsewhere (memory_kind::mapped), or 0.
  device_address host = 0;

  bool holds(device_address at, std::uint64_t count) const noexcept {
    return at >= address && count <= bytes && at - address <= bytes - count;
  }
};

/// Hands out the addresses of one window, and keeps the book of the memory that
/// the session has there. It packs blocks below 2 MiB at steps of 512 bytes.
/// Larger blocks have granules of their own, so that a freed block always
/// leaves room for another one of its size. Managed memory never shares a page.
///
/// Freeing does not wait for a kernel that still writes to the range. So a
/// freed range is handed out again only when all work that the log held before
/// the free is known to be done (settle). Thread-safe.
class address_space {
public:
  /// Hands out addresses in [base, base + bytes). `quota` bounds the bytes in
  /// use, and `step`, a power of two, is the smallest alignment. A value other
  /// than 0 in `changed` replaces the quota. The space keeps used() in `shown`.
  /// Both must outlive the space; either may be null. `granule`, a power of
  /// two, is the unit in which memory counts.
  address_space(device_address base, std::uint64_t bytes, std::uint64_t quota,
                std::uint64_t step,
                const std::atomic<std::uint64_t>* changed = nullptr,
                std::atomic<std::uint64_t>* shown = nullptr,
                std::uint64_t granule = granule_bytes);

  // The worker counts what the log tells it. A module costs memory whose size
  // only the worker knows, so the books of both agree only if nothing is
  // promised between the request for a module and its answer.

  /// Holds a promise of memory from the time when it counts until the log
  /// tells the worker. A thread holds at most one.
  using promise = std::shared_lock<std::shared_mutex>;
  /// Begins a promise. Waits while a thread holds all of them.
  promise begin_promise() { return promise{promises_}; }
  /// Waits for all promises, and lets none begin while the result lives.
  std::unique_lock<std::shared_mutex> hold_promises() {
    return std::unique_lock{promises_};
  }

  /// Says why allocate() returned no memory.
  enum class refusal : std::uint8_t { none, quota, addresses };

  /// Allocates, and fills in the address and the serial. The answer `addresses`
  /// means that the caller must settle freed ranges first.
  refusal allocate(allocation& what);

  /// Adds an allocation whose address was chosen elsewhere.
  void adopt(allocation what);

  /// Removes and returns the allocation that begins at `address`, if there is
  /// one. Its bytes still count, and its range is not free, until retire().
  std::optional<allocation> take(device_address address);

  /// Removes and returns all allocations of the context, as take() does.
  std::vector<allocation> take_all(std::uint64_t context);

  /// Subtracts the bytes of a removed allocation. Its range becomes free once
  /// `position`, the log position of the free, is settled.
  void retire(const allocation& what, std::uint64_t position);

  /// Notes that all work at log positions up to `position` is done.
  void settle(std::uint64_t position);
  /// Tells whether a small block may fit where another one was freed, in a
  /// granule that still counts, once that is settled.
  bool awaits(const allocation& what) const;

  // These members handle addresses and bytes separately, for memory that the
  // program maps by itself.

  /// Reserves addresses without memory. Returns nothing where the caller must
  /// settle freed ranges first.
  std::optional<device_address> reserve(std::uint64_t bytes,
                                        std::uint64_t alignment);
  /// Releases reserved addresses, which become free once `position` is settled.
  void unreserve(device_address address, std::uint64_t bytes,
                 std::uint64_t position);
  /// Counts bytes against the quota. Returns false, and counts nothing, where
  /// they exceed it.
  bool charge(std::uint64_t bytes);
  /// Counts bytes whether the quota allows them or not.
  void take_on(std::uint64_t bytes);
  /// Subtracts bytes of charge() or take_on().
  void refund(std::uint64_t bytes);
  /// Counts memory at reserved addresses against the quota. Returns false, and
  /// counts nothing, where it exceeds the quota.
  bool charge(device_address address, std::uint64_t bytes);
  /// Subtracts memory of charge() at these addresses.
  void refund(device_address address, std::uint64_t bytes);
  /// Counts the variables of a module, which the worker has allowed.
  void add_variables(std::uint64_t bytes);
  /// Subtracts variables of a module.
  void remove_variables(std::uint64_t bytes);
  /// Counts the heap of kernels' malloc with this size from now on.
  void set_heap(std::uint64_t bytes);
  /// Returns a copy of the book, in which the caller can try out changes.
  memory_account book() const;

  /// Finds the allocation that `address` lies in.
  std::optional<allocation> find(device_address address) const;
  /// Finds the adopted allocation outside the window that `address` lies in. It
  /// costs little where there are no such allocations.
  std::optional<allocation> find_beyond(device_address address) const;

  /// Returns the quota that holds now, in bytes.
  std::uint64_t quota() const noexcept {
    auto now = changed_ == nullptr ? std::uint64_t{0}
                                   : changed_->load(std::memory_order_relaxed);
    return now == 0 ? quota_ : now;
  }
  /// Returns the bytes that count against the quota.
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
  bool has_room(std::uint64_t cost) const noexcept {
    return account_.has_room(cost, quota());
  }
  /// Publishes used(). Precondition: the lock is held.
  void show() noexcept;
  /// Changes the book, and publishes used().
  template <class Change>
  void change(const Change& to);

  const device_address base_;
  const std::uint64_t quota_;
  const std::uint64_t step_;
  const std::atomic<std::uint64_t>* const changed_;
  std::atomic<std::uint64_t>* const shown_;
  mutable std::shared_mutex mutex_;
  range_allocator ranges_;
  std::map<device_address, allocation> live_;
  // The number of entries of live_ that lie outside the window
  std::atomic<std::size_t> beyond_{0};
  std::deque<freed> freed_;
  const std::uint64_t granule_;
  memory_account account_;
  std::shared_mutex promises_;
};

/// Returns a serial that grows with each allocation of the process, and is
/// never 0.
std::uint64_t next_serial() noexcept;

} // namespace vgpu::interposer
