// Pinned memory through which bytes pass between the device and memory that
// it cannot reach.
#pragma once

#include "devices/nvidia/driver.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vgpu::device::nvidia {

/// Buffers of pinned memory, made as they are needed and used again. They
/// come from the process and are registered, not from the driver, so that what
/// the driver allocates depends on the program alone. Buffers come back from
/// any thread; all else is one thread's.
class staging {
public:
  /// Owns a buffer's place in its pool.
  using buffer = std::shared_ptr<std::byte>;
  /// A forwarded answer has up to 16 MiB, and its parts up to 1 MiB
  /// (actors/forwarded_answers.cpp).
  static constexpr std::size_t largest = std::size_t{16} << 20;
  static constexpr std::array sizes = {std::size_t{64} << 10,
                                       std::size_t{1} << 20,
                                       std::size_t{4} << 20, largest};

  static constexpr std::size_t usual_bytes = std::size_t{256} << 20;

  /// `usual`: bytes of buffers of each size, at most.
  explicit staging(driver_ptr api, std::size_t usual = usual_bytes);

  /// A buffer of at least `bytes`, at most `largest`. Empty when so many
  /// are in use and `beyond` does not say that more must be had.
  result<buffer> take(std::size_t bytes, bool beyond);
  /// Whether these lie in one of its buffers.
  bool holds(std::span<const std::byte> bytes) const;

private:
  struct pool {
    std::mutex mutex;
    std::vector<std::byte*> free;
    std::size_t made = 0;
  };
  status grow(pool& which, std::size_t size);

  driver_ptr api_;
  std::size_t usual_;
  std::map<const std::byte*, const std::byte*> pinned_; // begin to end
  std::array<std::shared_ptr<pool>, sizes.size()> pools_;
};

} // namespace vgpu::device::nvidia
