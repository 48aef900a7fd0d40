// The environment of the process, as far as it may be trusted.
#pragma once

#include <cstdlib>

namespace vgpu {

/// Returns the value of an environment variable, or null. A program that has
/// more rights than the user who started it (set-user-ID, set-group-ID, file
/// capabilities) has none: it would let that user choose what runs and what is
/// opened with these rights.
inline const char* environment_value(const char* name) noexcept {
  return ::secure_getenv(name);
}

} // namespace vgpu
