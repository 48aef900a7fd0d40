// Tracking of writes to the granules of a window.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

namespace vgpu::device::cpu {

/// Tracks writes by write-protecting granules. The first write after a mark
/// faults, and the handler notes the granule and makes it writable again: one
/// fault for each granule and mark. Before the first mark nothing is protected
/// and no handler is set.
///
/// Threads of the process may write at any time. System calls may not: one that
/// writes to protected memory fails with EFAULT. Thread-safe, except for
/// reserve(). Only one thread at a time may call mark().
class change_tracker {
public:
  change_tracker() = default;
  change_tracker(const change_tracker&) = delete;
  change_tracker& operator=(const change_tracker&) = delete;
  ~change_tracker();

  /// Sets the window that begins at `base`. This is the first call, made once.
  status reserve(device_address base);

  /// Begins tracking whole granules that have just become private memory or a
  /// file's, and are readable and writable. They count as changed now.
  void add(device_address address, std::uint64_t bytes) noexcept;
  /// Ends tracking of these granules, before they become something else.
  void remove(device_address address, std::uint64_t bytes) noexcept;

  /// Implements change_unit::mark().
  result<std::uint64_t> mark();
  /// Implements change_unit::changed_since().
  bool changed_since(device_address address, std::uint64_t mark) const noexcept;

  /// Implements change_unit::peek() for one piece.
  status peek(std::span<std::byte> into, device_address from) const;

  /// Handles a fault of a write to this address. Returns true if the thread may
  /// continue. Safe in a signal handler.
  static bool note_write(std::uintptr_t address) noexcept;

private:
  using word = std::atomic<std::uint32_t>;

  /// Returns one word for each granule. It is 0 where the granule is not
  /// tracked, and otherwise the mark after which the granule was last written,
  /// or came. The granule is writable without a fault exactly if that is the
  /// latest mark.
  word* words() const noexcept {
    return reinterpret_cast<word*>(words_.data());
  }
  void set(device_address address, std::uint64_t bytes,
           std::uint32_t to) noexcept;
  status watch();
  bool reopen(std::uint64_t granule) noexcept;
  void protect(std::uint64_t first, std::uint64_t end,
               std::uint32_t written) noexcept;
  bool allow(std::uint64_t first, std::uint64_t end, bool writable) noexcept;

  device_address base_ = 0;
  mapping words_;
  std::atomic<std::uint32_t> latest_{1};
  std::mutex mutex_;           // guards what follows, and changes of words
  std::uint64_t granules_ = 0; // how many are tracked
  std::uint64_t end_ = 0;      // end of the last granule ever tracked
  bool watched_ = false;
};

} // namespace vgpu::device::cpu
