// Copies and fills on the real device.
#pragma once

#include "devices/nvidia/memory/arrays.hpp"
#include "devices/nvidia/memory/staging.hpp"
#include "devices/nvidia/streams/streams.hpp"

#include <map>

namespace vgpu::device::nvidia {

/// Enqueues copies so that the calling thread does not wait for the device:
/// what the driver would copy by waiting passes through pinned memory. Called
/// by the session's one thread.
class copies {
public:
  copies(driver_ptr api, streams& in, completions& waits, const arrays& known)
      : api_(api), streams_(in), waits_(waits), arrays_(known), staging_(api) {}

  /// Host memory that the device may reach at its own address. Whole pages.
  status attach(device_address address, std::uint64_t bytes);
  status detach(device_address address, std::uint64_t bytes);

  /// Memory that is pinned piece by piece, when reads go there.
  void reads_into(std::span<std::byte> memory) { landing_ = memory; }

  /// The bytes are taken at once. `in_window`: where they go is the device's
  /// memory for certain.
  status write(stream_id in, device_address to,
               std::span<const std::byte> bytes, bool in_window);
  status read(stream_id in, std::span<std::byte> bytes, device_address from,
              CUresult so_far, completion done);
  status copy(stream_id in, const pitched& to, const pitched& from,
              const extent& size);
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
