// Whether a test may judge the times that it measures.
#pragma once

#include <cstdlib>

namespace vgpu::test {

/// Returns whether measured times are judged. They are in tests/bench alone,
/// on a machine without other work.
inline bool are_times_judged() {
  return std::getenv("E2E_TIMES") != nullptr;
}

} // namespace vgpu::test
