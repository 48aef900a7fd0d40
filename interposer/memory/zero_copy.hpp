// Pinned memory that kernels use where it is, while the worker has a copy of
// its own.
#pragma once

#include "schema/base/ids.hpp"
#include "schema/log/changed_lines.hpp"
#include "schema/log/session_area.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// Where the worker maps the program's memory there is nothing to do: both have
/// the same. Else what the program wrote is told before each launch, as far as
/// it differs from what both sides knew of last, and the client brings what
/// kernels wrote before it answers. That costs a comparison of all such memory
/// a launch; so memory counts from when its address on the device was asked
/// for, or a kernel was given an address in it. One that a kernel only finds in
/// other memory is not known of. Thread-safe.
class zero_copy_memory {
public:
  /// How much pinned memory there is: while there is none, nothing below need
  /// be asked.
  static bool possible() noexcept {
    return pinned_.load(std::memory_order_relaxed) != 0;
  }
  /// Counts pinned memory that was allocated: waits may have something to send
  /// from now on.
  static void allocated() noexcept;

  /// Kernels may use the allocation that this address lies in.
  void note(device_address at);
  /// A kernel is launched with these arguments.
  void before_launch(std::span<const std::byte> arguments);
  /// Sends what the program wrote, as it waits for kernels, which may wait for
  /// that; or as the worker is about to go on with what waited for the program.
  /// It runs before each wait (session_part::before_wait).
  static void tell_now();
  /// The allocation goes, with what is known of it.
  void freed(device_address at);

private:
  bool apart() const;
  void tell();

  inline static std::atomic<std::uint32_t> pinned_{0};

  std::atomic<bool> any_ = false; // of ranges_
  std::timed_mutex mutex_;
  std::optional<mapping> known_; // session_area::view_host_known()
  struct range {
    std::uint64_t bytes = 0; // whole lines
    std::uint8_t device = 0;
    std::uint64_t told = 0; // control_header::host_apart when it was, at first
  };
  std::map<device_address, range> ranges_;
  std::vector<changed_line> lines_;
};

/// Gives the process's own. Precondition: the driver's state is made.
zero_copy_memory& zero_copy() noexcept;

} // namespace vgpu::interposer
