// Physical memory that a program maps to addresses by itself (CUDA driver API,
// "Virtual Memory Management").
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>

namespace vgpu {

/// Names memory of a device that has no address of its own.
using memory_id = id<struct memory_tag>;

/// Names the access of a device to mapped addresses, with the numbers of
/// CUmemAccess_flags.
enum class memory_access : std::uint32_t {
  none = 0,
  read = 1,
  read_write = 3,
};

} // namespace vgpu
