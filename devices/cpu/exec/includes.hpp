// The includes of the executor, read before a processor level is chosen, so
// that the libraries' code is compiled for every processor.
#pragma once

#include "devices/cpu/lower/bulk_op.hpp"
#include "devices/cpu/lower/matrix_shapes.hpp"
#include "devices/cpu/lower/op_table.hpp"
#include "devices/cpu/lower/system_calls.hpp"
#include "devices/cpu/run/block.hpp"
#include "devices/cpu/run/cluster.hpp"
#include "devices/cpu/run/float_format.hpp"
#include "devices/cpu/run/warp.hpp"

#include <cuda.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>
#include <type_traits>
#include <vector>

namespace vgpu::device::cpu {

/// Returns the nanoseconds since the epoch (PTX ISA, %globaltimer).
inline std::uint64_t nanoseconds() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count());
}

} // namespace vgpu::device::cpu
