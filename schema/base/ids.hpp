// The numbers by which every part of the system names things.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace vgpu {

/// Describes a number that names one kind of object. `Tag` distinguishes the
/// kinds, and zero names nothing.
template <class Tag>
struct id {
  std::uint64_t value = 0;

  explicit operator bool() const noexcept { return value != 0; }
  friend bool operator==(const id&, const id&) = default;
  friend auto operator<=>(const id&, const id&) = default;
};

/// Names a vGPU for as long as the cluster runs: `vgpu/17`.
using vgpu_id = id<struct vgpu_tag>;
/// Names one program process on one vGPU.
using session_id = id<struct session_tag>;

/// Names a placement of a lease, by a number that grows with each placement. It
/// is the fencing token: everybody refuses a message of an older epoch.
using epoch = id<struct epoch_tag>;

/// Names the position of a call in its session's log, in bytes from the log's
/// beginning. It grows from call to call, is never reused, and is not dense.
using call_number = id<struct call_number_tag>;

// These name driver objects. The interposer chooses the numbers, and they hold
// on every device that ever serves the session.
using stream_id = id<struct stream_tag>;
using event_id = id<struct event_tag>;
using module_id = id<struct module_tag>;
/// Names a kernel by its module and its index in that module's list of kernels.
using kernel_id = id<struct kernel_tag>;

/// Names the legacy default stream, whose work is ordered with all work in
/// streams that were not created non-blocking (CUDA driver API, "Stream
/// synchronization behavior").
inline constexpr stream_id legacy_stream{1};

/// Holds a virtual address that the program and every device share.
using device_address = std::uint64_t;

/// Gives the size of the window of device addresses that each vGPU owns, in
/// bytes.
inline constexpr std::uint64_t window_bytes = std::uint64_t{1} << 40;
/// Gives the first address of the first device's window. The windows of further
/// devices lie below it, one after the other. It avoids the addresses of
/// programs (0x55..) and libraries (0x7f..) under Linux, and of
/// AddressSanitizer's heap (0x50.. or 0x60..). The windows of the first 16
/// devices also avoid the 46 bits in which V8 (Node.js) and Chromium's
/// allocator place memory at random.
inline constexpr device_address first_window = 0x4f00'0000'0000;

/// Returns the first address of a device's window.
constexpr device_address window_of(std::uint64_t device) noexcept {
  return first_window - device * window_bytes;
}

/// Returns the device in whose window an address lies, or a number that no
/// device has.
constexpr std::uint64_t device_at(device_address x) noexcept {
  return (first_window + window_bytes - 1 - x) / window_bytes;
}
/// In each window, the program's side allocates below this offset. What only a
/// device can place (module globals) lies at or above it.
inline constexpr std::uint64_t device_placed_offset = 0xC0'0000'0000;
/// Gives the first address of the host window: the window in which a session's
/// host memory that CUDA allocates (pinned, mapped) lies.
inline constexpr device_address host_window = 0x6800'0000'0000;

/// Returns whether an address lies in the first `bytes` of the host window.
constexpr bool in_host_window(device_address x,
                              std::uint64_t bytes = window_bytes) noexcept {
  return x - host_window < bytes; // an address below the window wraps around
}

/// Returns whether a range lies in the first `within` bytes of the host window.
/// An empty range may also lie at their end.
constexpr bool is_within_host_window(device_address begin, std::uint64_t bytes,
                                     std::uint64_t within) noexcept {
  return bytes <= within && begin - host_window <= within - bytes;
}
/// Gives the unit in which a device backs addresses with memory, in bytes.
inline constexpr std::uint64_t granule_bytes = std::uint64_t{2} << 20;

} // namespace vgpu

template <class Tag>
struct std::hash<vgpu::id<Tag>> {
  std::size_t operator()(const vgpu::id<Tag>& x) const noexcept {
    return std::hash<std::uint64_t>{}(x.value);
  }
};
