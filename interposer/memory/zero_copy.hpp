// Pinned memory that kernels use in place, while the worker has its own copy.
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

/// Keeps the worker's copy of pinned memory in step. It does nothing where the
/// worker maps the program's memory. Otherwise it sends the program's changes
/// before each launch, and the client copies the kernels' writes back before it
/// answers. Each launch therefore compares all such memory. So memory is kept
/// in step only once the program asks for its device address, or passes a
/// kernel an address in it. Memory whose address a kernel only finds in other
/// memory is not kept in step. Thread-safe.
class zero_copy_memory {
public:
  /// Tells whether pinned memory exists. Without it, callers need none of the
  /// members below.
  static bool possible() noexcept {
    return pinned_.load(std::memory_order_relaxed) != 0;
  }
  /// Counts an allocation of pinned memory, or registered memory that kernels
  /// may use in place. From now on a wait may have changes to send.
  static void allocated() noexcept;

  /// Notes that kernels may use the allocation that this address lies in.
  void note(device_address at);
  /// Sends the program's changes, before a kernel is launched with these
  /// arguments. Tells whether one of them is an address in pinned memory.
  bool before_launch(std::span<const std::byte> arguments);
  /// Sends the program's changes, before a device fills pinned memory.
  void before_fill(device_address to);
  /// Sends the program's changes. It runs before each wait
  /// (session_part::before_wait), because a kernel may wait for these changes,
  /// and before the worker continues with work that waited for the program.
  static void tell_now();
  /// Forgets the allocation, which is freed.
  void freed(device_address at);

private:
  void tell();
  void tell_if_any();

  inline static std::atomic<std::uint32_t> pinned_{0};

  std::atomic<bool> any_ = false; // whether ranges_ has entries
  std::timed_mutex mutex_;
  std::optional<mapping> known_; // session_area::view_host_known()
  struct range {
    std::uint64_t bytes = 0; // whole lines
    std::uint8_t device = 0;
    // The value of control_header::host_apart when it was first sent
    std::uint64_t told = 0;
  };
  std::map<device_address, range> ranges_;
  std::vector<changed_line> lines_;
};

/// Returns the process's memory of this kind. Precondition: the driver's state
/// is made.
zero_copy_memory& zero_copy() noexcept;

} // namespace vgpu::interposer
