// How many threads of a worker copy contents.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>

namespace vgpu {

/// Returns how many threads copy, at most `most`. The program has most of the
/// processors.
inline std::size_t copying_threads(std::size_t most) {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 1,
                                 most);
}

} // namespace vgpu
