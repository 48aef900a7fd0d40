// Support for exported entry points. Every file with entry points includes it
// first.
#pragma once

#include "interposer/session/driver_api.hpp"

#include "interposer/context/context.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/tracer.hpp"

#include <exception>
#include <new>

/// Gives an exported function this symbol. For older versions of calls, which
/// cuda.h no longer declares. The macro follows the parameters of the
/// declaration.
#define VGPU_EXPORT_AS(symbol)                                                 \
  __asm__(symbol) __attribute__((visibility("default")))

namespace vgpu::interposer {

/// Runs the body of an entry point. No exception leaves it, because the caller
/// is C. The driver's log names each call that fails. Without running the body,
/// it returns an error before cuInit, in the child of a fork and at exit.
template <class Body>
CUresult guarded(const Body& body) noexcept {
  if (auto refused = process::phase_error(); refused != CUDA_SUCCESS)
      [[unlikely]]
    return refused;
  traced_call traced{__PRETTY_FUNCTION__};
  try {
    auto code = body();
    if (code != CUDA_SUCCESS) [[unlikely]]
      note_failed_call(__PRETTY_FUNCTION__, code);
    return traced.gives(code);
  } catch (const std::bad_alloc&) {
    return traced.gives(CUDA_ERROR_OUT_OF_MEMORY);
  } catch (const std::exception& e) {
    return traced.gives(code_of_exception(e));
  }
}

/// Runs a body as guarded() does, with the calling thread's context. It
/// requires that the context is usable and that its device has not failed.
template <class Body>
CUresult in_context(const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* current = current_context();
    if (auto why = usable(current); why != CUDA_SUCCESS) [[unlikely]]
      return why;
    return body(*current);
  });
}

/// Runs a body as guarded() does, for a call whose object a handle names. The
/// object has its own context, so the thread needs none. It requires only that
/// the session has not failed.
template <class Body>
CUresult by_handle(const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto failed = process::session_error();
    return failed != CUDA_SUCCESS ? failed : body();
  });
}

} // namespace vgpu::interposer
