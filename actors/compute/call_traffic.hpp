// The bytes that a call moves between program and device.
#pragma once

#include "devices/interface/timing_unit.hpp"
#include "schema/base/ids.hpp"
#include "schema/catalogue/calls.hpp"
#include "schema/log/changed_lines.hpp"

#include <cstdint>

namespace vgpu {

/// Counts the bytes that a call moves in each direction.
struct call_traffic {
  std::uint64_t to_device = 0;
  std::uint64_t from_device = 0;
};

inline std::uint64_t bytes_of(const call::extent& x) {
  return x.width * x.height * x.depth;
}

inline call_traffic traffic_of(const call::write& x) {
  return {bytes_of(x.size), 0};
}
inline call_traffic traffic_of(const call::late_write& x) {
  return {bytes_of(x.size), 0};
}
inline call_traffic traffic_of(const call::read& x) {
  return {0, bytes_of(x.size)};
}
inline call_traffic traffic_of(const call::read_host& x) {
  return {0, bytes_of(x.size)};
}
/// Counts a copy only where pinned memory is on exactly one side.
inline call_traffic traffic_of(const call::copy& x) {
  auto from_host = in_host_window(x.from.address);
  auto to_host = in_host_window(x.to.address);
  return {from_host && !to_host ? bytes_of(x.size) : 0,
          to_host && !from_host ? bytes_of(x.size) : 0};
}
inline call_traffic traffic_of(const call::read_managed& x) {
  return {0, x.bytes};
}
inline call_traffic traffic_of(const call::write_managed& x) {
  return {x.bytes, 0};
}
inline call_traffic traffic_of(const call::zero_copy_write& x) {
  return {x.count * changed_line::bytes, 0};
}

/// Returns whether the call is a copy or memset that is long enough for the
/// device to time it by itself.
template <class Call>
bool is_long_copy(const Call& x) {
  if constexpr (requires { x.element_bytes; })
    return bytes_of(x.size) * x.element_bytes >= device::long_copy;
  else if constexpr (requires { bytes_of(x.size); })
    return bytes_of(x.size) >= device::long_copy;
  else
    return false;
}

template <class Call>
concept moves_bytes = requires(const Call& x) {
  traffic_of(x);
};

} // namespace vgpu
