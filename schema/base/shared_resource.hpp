// Objects that one session lends to another: memory and events that cross
// processes (CUDA driver API, cuIpcGetMemHandle and related calls).
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>
#include <tuple>

namespace vgpu {

/// Describes a secret that a program chooses at random, once. It leads to the
/// worker that serves the program's session, and without it a caller gets
/// nothing there. It ends with the program.
struct share_secret {
  std::uint64_t high = 0, low = 0;
  static constexpr auto fields(auto& x) { return std::tie(x.high, x.low); }
  friend bool operator==(const share_secret&, const share_secret&) = default;
};

/// Names one object that a session lends. The serial distinguishes objects that
/// had the same address at different times.
struct share_name {
  share_secret session{};
  /// Is an allocation's address, an event's number or another number.
  std::uint64_t number = 0;
  std::uint64_t serial = 0;
  static constexpr auto fields(auto& x) {
    return std::tie(x.session, x.number, x.serial);
  }
  friend bool operator==(const share_name&, const share_name&) = default;
};

/// Says how shared memory lies in whole granules, and on which host. It fits
/// into a call's 64-bit answer.
struct share_layout {
  /// Counts the granules before that of the first byte.
  std::uint64_t lead = 0;
  /// Counts all granules.
  std::uint64_t granules = 0;
  /// Holds 24 bits of a digest of the host's name.
  std::uint32_t host = 0;

  static constexpr std::uint64_t most = window_bytes / granule_bytes;

  constexpr std::uint64_t pack() const noexcept {
    return lead | granules << 20 | std::uint64_t{host} << 40;
  }
  static constexpr share_layout unpack(std::uint64_t x) noexcept {
    constexpr std::uint64_t low = (1U << 20) - 1;
    return {x & low, x >> 20 & low, static_cast<std::uint32_t>(x >> 40)};
  }
  constexpr bool is_sound() const noexcept {
    return granules != 0 && granules <= most && lead < granules;
  }
  friend bool operator==(const share_layout&, const share_layout&) = default;
};

} // namespace vgpu
