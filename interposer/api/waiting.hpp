// Entry points that may wait for work, and so cannot be made beside a capture.
#pragma once

#include "interposer/api/entry.hpp"

#include "interposer/graph/capture.hpp"

namespace vgpu::interposer {

/// Refuses calls which may wait while a thread captures in a mode that forbids
/// them (CUDA driver API, cuThreadExchangeStreamCaptureMode).
inline CUresult may_wait() {
  return any_capture() ? check_unsafe_call() : CUDA_SUCCESS;
}

/// As in_context, for what may wait.
template <class Body>
CUresult in_waiting_context(const Body& body) noexcept {
  return in_context([&](context& x) -> CUresult {
    auto refused = may_wait();
    return refused != CUDA_SUCCESS ? refused : body(x);
  });
}

/// As by_handle, for what may wait.
template <class Body>
CUresult waiting_by_handle(const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    auto refused = may_wait();
    return refused != CUDA_SUCCESS ? refused : body();
  });
}

} // namespace vgpu::interposer
