// What a stream that waits for a value in memory compares, and how.
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>

namespace vgpu {

/// CUstreamWaitValue_flags without the bit that asks for a flush (CUDA driver
/// API, cuStreamWaitValue32): the same numbers.
enum class value_test : std::uint32_t {
  reached = 0,   ///< not before the value, on a circle
  equal = 1,     ///< the value
  any_set = 2,   ///< has a bit of the value
  any_clear = 3, ///< a bit is 0 in both
};

/// A word of 4 or 8 bytes, aligned to its size, and what it must come to be.
struct awaited_value {
  device_address address = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
  value_test test = value_test::equal;

  constexpr bool is_sound() const noexcept {
    return (bytes == 4 || bytes == 8) && address != 0 && address % bytes == 0 &&
           test <= value_test::any_clear;
  }

  /// Whether the word, which now holds `now`, is as it must be.
  constexpr bool met_by(std::uint64_t now) const noexcept {
    switch (test) {
    case value_test::reached:
      return bytes == 8 ? static_cast<std::int64_t>(now - value) >= 0
                        : static_cast<std::int32_t>(now - value) >= 0;
    case value_test::equal:
      return now == value;
    case value_test::any_set:
      return (now & value) != 0;
    case value_test::any_clear: {
      auto clear = ~(now | value);
      return bytes == 8 ? clear != 0 : static_cast<std::uint32_t>(clear) != 0;
    }
    }
    return false;
  }

  /// The word as it is. Precondition: it is memory of this process.
  std::uint64_t read() const noexcept {
    if (bytes == 8)
      return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(address),
                             __ATOMIC_ACQUIRE);
    return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(address),
                           __ATOMIC_ACQUIRE);
  }
  /// Puts the value there, behind all that this thread wrote before.
  void write() const noexcept {
    if (bytes == 8)
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(address), value,
                       __ATOMIC_RELEASE);
    else
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(address),
                       static_cast<std::uint32_t>(value), __ATOMIC_RELEASE);
  }
};

} // namespace vgpu
