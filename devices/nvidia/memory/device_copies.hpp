// Copies and fills on an NVIDIA GPU.
#pragma once

#include "devices/nvidia/memory/arrays.hpp"
#include "devices/nvidia/memory/staging.hpp"
#include "devices/nvidia/streams/streams.hpp"

#include <map>

namespace vgpu::device::nvidia {

/// Enqueues copies without letting the calling thread wait for the device: a
/// copy for which the driver would wait goes through pinned memory. The
/// session's one thread makes all calls.
class copies {
public:
  copies(driver_ptr api, streams& in, completions& waits, const arrays& known)
      : api_(api), streams_(in), waits_(waits), arrays_(known), staging_(api) {}

  /// Lets the device use host memory at its own address. Rounds the range to
  /// whole pages.
  status attach(device_address address, std::uint64_t bytes);
  /// Reverses attach() for this range.
  status detach(device_address address, std::uint64_t bytes);

  /// Sets memory that is pinned piece by piece when reads go there.
  void reads_into(std::span<std::byte> memory) { landing_ = memory; }

  /// Copies to the device. When it returns the caller may change the bytes.
  /// `in_window` says that `to` certainly lies in device memory.
  status write(stream_id in, device_address to,
               std::span<const std::byte> bytes, bool in_window);
  /// Copies from the device into `bytes` and then calls `done`. `so_far` is the
  /// device's sticky error, for work that is done already.
  status read(stream_id in, std::span<std::byte> bytes, device_address from,
              CUresult so_far, completion done);
  /// Copies between addresses of the device or of attached host memory.
  status copy(stream_id in, const pitched& to, const pitched& from,
              const extent& size);
  /// Fills rows with an element of 1, 2 or 4 bytes. The width counts elements.
  status fill(stream_id in, const pitched& to, std::uint32_t value,
              std::uint32_t element_bytes, const extent& size);

private:
  bool attached(const void* at, std::uint64_t bytes) const;
  std::span<std::byte> piece_at(std::span<std::byte> bytes) const;
  bool can_land(std::span<std::byte> bytes);
  status read_landed(stream_id in, std::span<std::byte> bytes,
                     device_address from, CUresult so_far, completion done);
  result<staging::buffer> buffer(std::size_t bytes);
  status to_device(CUstream in, device_address to, const void* from,
                   std::size_t bytes, bool in_window);
  status from_device(CUstream in, std::byte* to, device_address from,
                     std::size_t bytes);
  status copy_flat(CUstream in, device_address to, device_address from,
                   std::uint64_t bytes);
  status copy_box(CUstream in, const pitched& to, const pitched& from,
                  const extent& size);
  status read_staged(stream_id in, std::span<std::byte> bytes,
                     device_address from, CUresult so_far, completion done);
  CUresult fill_rows(CUstream in, device_address at, std::uint64_t pitch,
                     std::uint32_t value, std::uint32_t element_bytes,
                     std::uint64_t width, std::uint64_t height);

  driver_ptr api_;
  streams& streams_;
  completions& waits_;
  const arrays& arrays_;
  staging staging_;
  std::map<std::uint64_t, std::uint64_t> attached_; // begin to end
  std::span<std::byte> landing_;
};

} // namespace vgpu::device::nvidia
