// Programs that are built with a sanitizer.
#pragma once

namespace vgpu {

/// Tells whether this program is built with a sanitizer, whose run-time library
/// makes calls and files of its own.
constexpr bool is_sanitized() noexcept {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

} // namespace vgpu
