// The numbers by which every part of the system names things. Values only.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace vgpu {

/// A number that names one kind of thing. `Tag` keeps kinds apart; zero names
/// nothing.
template <class Tag>
struct id {
  std::uint64_t value = 0;

  explicit operator bool() const noexcept { return value != 0; }
  friend bool operator==(const id&, const id&) = default;
  friend auto operator<=>(const id&, const id&) = default;
};

/// A vGPU for as long as the cluster runs: `vgpu/17`.
using vgpu_id = id<struct vgpu_tag>;
/// One program process on one vGPU.
using session_id = id<struct session_tag>;

/// Grows by one each time a lease is placed anew. The fencing token: whoever
/// carries an older one is refused.
using epoch = id<struct epoch_tag>;

/// The place of a call in its session's log, in bytes from the log's
/// beginning. Grows from call to call, is never reused, and is not dense.
using call_number = id<struct call_number_tag>;

// Handles of driver objects. The interposer chooses them; they hold on every
// device that ever serves the session.
using stream_id = id<struct stream_tag>;
using event_id = id<struct event_tag>;
using module_id = id<struct module_tag>;
/// A kernel: its module and its index in that module's list of kernels.
using kernel_id = id<struct kernel_tag>;

/// The legacy default stream: work in it is ordered with all work in streams
/// that were not created non-blocking (CUDA driver API, "Stream
/// synchronization behavior").
inline constexpr stream_id legacy_stream{1};

/// A virtual address that device and program share (design: the window of a
/// vGPU holds on every device).
using device_address = std::uint64_t;

/// Every vGPU owns one window of this many bytes of device addresses.
inline constexpr std::uint64_t window_bytes = std::uint64_t{1} << 40;
/// Where the first device's window begins; the others lie below it, one behind
/// the other. Clear of where Linux puts programs (0x55..) and libraries
/// (0x7f..), of where AddressSanitizer keeps its heap (0x50.. or 0x60..) and,
/// those of the first 16 devices, of the 46 bits in which V8 (Node.js) and
/// Chromium's allocator put memory at random.
inline constexpr device_address first_window = 0x4f00'0000'0000;

/// Where the window of a device begins.
constexpr device_address window_of(std::uint64_t device) noexcept {
  return first_window - device * window_bytes;
}

/// The device in whose window an address lies, or a number that none has.
constexpr std::uint64_t device_at(device_address x) noexcept {
  return (first_window + window_bytes - 1 - x) / window_bytes;
}
/// In each window, what the program's side allocates lies below this offset,
/// and what only a device can place (module globals) lies at or above it.
inline constexpr std::uint64_t device_placed_offset = 0xC0'0000'0000;
/// Host memory that CUDA allocates (pinned, mapped) lies in one window a
/// session from here on.
inline constexpr device_address host_window = 0x6800'0000'0000;

/// Whether an address lies in that window, of which a session may have the
/// first `bytes` only.
constexpr bool in_host_window(device_address x,
                              std::uint64_t bytes = window_bytes) noexcept {
  return x - host_window < bytes; // what lies below it comes round
}

/// Whether all of a range lies in the first `within` bytes of that window. An
/// empty one may also lie at their end.
constexpr bool is_within_host_window(device_address begin, std::uint64_t bytes,
                                     std::uint64_t within) noexcept {
  return bytes <= within && begin - host_window <= within - bytes;
}
/// The unit in which a device backs addresses with memory.
inline constexpr std::uint64_t granule_bytes = std::uint64_t{2} << 20;

} // namespace vgpu

template <class Tag>
struct std::hash<vgpu::id<Tag>> {
  std::size_t operator()(const vgpu::id<Tag>& x) const noexcept {
    return std::hash<std::uint64_t>{}(x.value);
  }
};
