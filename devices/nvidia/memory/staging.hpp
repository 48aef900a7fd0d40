// Pinned memory through which bytes pass between the device and memory that
// it cannot reach.
#pragma once

#include "devices/nvidia/driver/driver.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vgpu::device::nvidia {

/// Buffers of pinned memory, made as they are needed and used again. They
/// come from the process and are registered, not from the driver, so that what
/// the driver allocates depends on the program alone. Thread-safe.
class staging {
public:
  /// Owns a buffer's place in its pool.
  using buffer = std::shared_ptr<std::byte>;
  static constexpr std::size_t large_bytes = std::size_t{4} << 20;
  /// A forwarded answer's parts have up to 1 MiB
  /// (actors/worker/serve/forwarded_answers.cpp).
  static constexpr std::array sizes = {std::size_t{64} << 10,
                                       std::size_t{1} << 20, large_bytes};
  /// Of each size, at most.
  static constexpr std::size_t usual_bytes = std::size_t{256} << 20;

  explicit staging(driver_ptr api);

  /// A buffer of at least `bytes`, at most large_bytes. Empty when usual_bytes
  /// are in use and `beyond` does not say that more must be had.
  result<buffer> take(std::size_t bytes, bool beyond);

private:
  struct pool {
    std::mutex mutex;
    std::vector<std::byte*> free;
    std::size_t made = 0;
  };
  status grow(pool& which, std::size_t size);

  driver_ptr api_;
  std::array<std::shared_ptr<pool>, sizes.size()> pools_;
};

} // namespace vgpu::device::nvidia
