// Support for entry points that may wait for work, and so may be forbidden
// during a capture.
#pragma once

#include "interposer/api/entry.hpp"

#include "interposer/graph/capture.hpp"

namespace vgpu::interposer {

/// Refuses calls that may wait while a thread captures in a mode that forbids
/// them (CUDA driver API, cuThreadExchangeStreamCaptureMode).
inline CUresult may_wait() {
  return any_capture() ? check_unsafe_call() : CUDA_SUCCESS;
}

/// Runs a body as in_context() does, for a call that may wait.
template <class Body>
CUresult in_waiting_context(const Body& body) noexcept {
  return in_context([&](context& x) -> CUresult {
    auto refused = may_wait();
    return refused != CUDA_SUCCESS ? refused : body(x);
  });
}

/// Runs a body as by_handle() does, for a call that may wait.
template <class Body>
CUresult waiting_by_handle(const Body& body) noexcept {
  return by_handle([&]() -> CUresult {
    auto refused = may_wait();
    return refused != CUDA_SUCCESS ? refused : body();
  });
}

} // namespace vgpu::interposer
