// Memory through which contents pass on their way from a device to a file.
#pragma once

#include "devices/interface/change_unit.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vgpu {

/// Is a piece of memory of this process, which a device has pinned if it can.
class copy_room {
public:
  /// Maps so many bytes, and pins them for the copies of `by` and of the
  /// session's other devices. Throws std::bad_alloc.
  copy_room(std::size_t bytes, device::change_unit& by);
  ~copy_room();
  copy_room(const copy_room&) = delete;
  copy_room& operator=(const copy_room&) = delete;

  std::span<std::byte> memory() const noexcept { return memory_; }
  bool is_pinned() const noexcept { return pinned_ != nullptr; }

private:
  std::span<std::byte> memory_;
  std::unique_ptr<device::pinned_memory> pinned_;
};

/// Keeps rooms for the next copies, one for each thread that has copied,
/// because pinning delays the other calls of the driver. Thread-safe. The
/// devices must outlive it.
class copy_rooms {
public:
  /// All rooms have this many bytes.
  static constexpr std::size_t bytes = std::size_t{32} << 20;

  /// Returns a room that nobody uses, or makes one.
  std::unique_ptr<copy_room> take(device::change_unit& by);
  void give_back(std::unique_ptr<copy_room> x);

private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<copy_room>> free_;
};

} // namespace vgpu
