// Pinned memory that kernels use in place, while the worker has a copy of its
// own.
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

/// This keeps the worker's copy of pinned memory in step. There is nothing to
/// do where the worker maps the program's memory. Otherwise this sends what the
/// program changed before each launch, and the client brings what kernels wrote
/// before it answers. Each launch therefore compares all such memory. So memory
/// takes part only once the program asks for its device address, or passes a
/// kernel an address in it. It misses memory whose address a kernel only finds
/// in other memory. Thread-safe.
class zero_copy_memory {
public:
  /// Tells whether there is pinned memory. Without any, callers need none of
  /// the members below.
  static bool possible() noexcept {
    return pinned_.load(std::memory_order_relaxed) != 0;
  }
  /// Counts pinned memory that was allocated. Waits may have something to send
  /// from now on.
  static void allocated() noexcept;

  /// Notes that kernels may use the allocation that this address lies in.
  void note(device_address at);
  /// Sends what the program changed, before a kernel is launched with these
  /// arguments.
  void before_launch(std::span<const std::byte> arguments);
  /// Sends what the program changed, before it waits for kernels that may wait
  /// for that, or before the worker continues with work that waited for the
  /// program. It runs before each wait (session_part::before_wait).
  static void tell_now();
  /// Forgets the allocation, which is freed.
  void freed(device_address at);

private:
  bool apart() const;
  void tell();

  inline static std::atomic<std::uint32_t> pinned_{0};

  std::atomic<bool> any_ = false; // This tells whether ranges_ has any.
  std::timed_mutex mutex_;
  std::optional<mapping> known_; // This is session_area::view_host_known().
  struct range {
    std::uint64_t bytes = 0; // This is a whole number of lines.
    std::uint8_t device = 0;
    // This is the value of control_header::host_apart when it was first sent.
    std::uint64_t told = 0;
  };
  std::map<device_address, range> ranges_;
  std::vector<changed_line> lines_;
};

/// Returns the process's memory of this kind. Precondition: the driver's state
/// is made.
zero_copy_memory& zero_copy() noexcept;

} // namespace vgpu::interposer
