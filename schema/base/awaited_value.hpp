// The comparison by which a stream waits for a value in memory.
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>

namespace vgpu {

/// Names the kinds of comparison: CUstreamWaitValue_flags with the same
/// numbers, without the bit that requests a flush (CUDA driver API,
/// cuStreamWaitValue32).
enum class value_test : std::uint32_t {
  /// The word has reached the value, modulo its size.
  reached = 0,
  /// The word is equal to the value.
  equal = 1,
  /// The word has a bit of the value.
  any_set = 2,
  /// A bit is 0 in both the word and the value.
  any_clear = 3,
};

/// Describes a word of 4 or 8 bytes, aligned to its size, and the value that a
/// stream waits for.
struct awaited_value {
  device_address address = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;
  value_test test = value_test::equal;

  /// Returns whether size, alignment and comparison are valid.
  constexpr bool is_sound() const noexcept {
    return (bytes == 4 || bytes == 8) && address != 0 && address % bytes == 0 &&
           test <= value_test::any_clear;
  }

  /// Returns whether the wait is over when the word holds `now`.
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

  /// Reads the word, which must lie in this process's memory.
  std::uint64_t read() const noexcept {
    if (bytes == 8)
      return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(address),
                             __ATOMIC_ACQUIRE);
    return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(address),
                           __ATOMIC_ACQUIRE);
  }
  /// Stores the value after everything that this thread wrote before (release).
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
