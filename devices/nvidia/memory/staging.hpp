// Pinned memory through which bytes pass between the device and memory that it
// cannot reach.
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

/// Makes buffers of pinned memory on demand and reuses them. A buffer is
/// registered memory of the process and not an allocation of the driver, so
/// that the driver's allocations depend on the program alone. Thread-safe.
class staging {
public:
  /// Owns a buffer; the last owner returns it to its pool.
  using buffer = std::shared_ptr<std::byte>;
  /// The largest buffers have this many bytes.
  static constexpr std::size_t large_bytes = std::size_t{4} << 20;
  /// Buffers have one of these sizes. Parts of a forwarded answer have up to 1
  /// MiB (actors/worker/serve/forwarded_answers.cpp).
  static constexpr std::array sizes = {std::size_t{64} << 10,
                                       std::size_t{1} << 20, large_bytes};
  /// Each pool has at most this many bytes unless a caller needs more.
  static constexpr std::size_t usual_bytes = std::size_t{256} << 20;

  explicit staging(driver_ptr api);

  /// Returns a buffer of at least `bytes` bytes, which are at most large_bytes.
  /// The result is null when usual_bytes are in use and `beyond` is false.
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
