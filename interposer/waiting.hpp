// Entry points that may wait for work, and so cannot be made beside a capture.
#pragma once

#include "interposer/entry.hpp"

#include "interposer/capture.hpp"

namespace vgpu::interposer {

/// As in_context; refused while a thread captures in a mode that forbids calls
/// which may wait (CUDA driver API, cuThreadExchangeStreamCaptureMode).
template <class Body>
CUresult in_waiting_context(const Body& body) noexcept {
  return in_context([&](context& x) -> CUresult {
    if (any_capture()) [[unlikely]]
      if (auto code = check_unsafe_call(); code != CUDA_SUCCESS)
        return code;
    return body(x);
  });
}

} // namespace vgpu::interposer
