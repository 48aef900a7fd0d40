// Which granules of a window are written to.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

namespace vgpu::device::cpu {

/// Watches a window's granules by taking the right to write to them: the first
/// write after a mark is a fault, whose handler notes the granule and gives the
/// right back. That is one fault a granule and mark; before the first mark
/// nothing is watched and no handler is set. Threads of the process may write
/// at any time, and so may nobody else: a system call that is to write there
/// fails (EFAULT).
///
/// Thread-safe but for reserve(); one mark is made at a time.
class change_tracker {
public:
  change_tracker() = default;
  change_tracker(const change_tracker&) = delete;
  change_tracker& operator=(const change_tracker&) = delete;
  ~change_tracker();

  /// The window that begins at `base`; once, first.
  status reserve(device_address base);

  /// Whole granules that have just come to be private memory, or a file's, that
  /// may be read and written: they count as changed now.
  void add(device_address address, std::uint64_t bytes) noexcept;
  /// They are about to become something else: not watched any more.
  void remove(device_address address, std::uint64_t bytes) noexcept;

  /// change_unit::mark().
  result<std::uint64_t> mark();
  /// change_unit::changed_since().
  bool changed_since(device_address address, std::uint64_t mark) const noexcept;

  /// change_unit::peek().
  status peek(std::span<std::byte> into, device_address from) const;

  /// A thread's write at this address met a fault: true if it may go on. Safe
  /// in a signal handler.
  static bool note_write(std::uintptr_t address) noexcept;

private:
  using word = std::atomic<std::uint32_t>;

  /// Of a granule: 0, not watched; else the mark after which it was last
  /// written, or came. It can be written without a fault if that is the latest
  /// mark, and only then.
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
  std::mutex mutex_;           // guards what follows, and who changes words
  std::uint64_t granules_ = 0; // that are watched
  std::uint64_t end_ = 0;      // behind the last of them that there ever was
  bool watched_ = false;
};

} // namespace vgpu::device::cpu
