// What every file with exported entry points includes, before anything else.
#pragma once

#include "interposer/session/driver_api.hpp"

#include "interposer/context/context.hpp"
#include "interposer/session/process.hpp"

#include <exception>
#include <new>

/// Gives a function that cuda.h no longer declares (an older version of a
/// call) the symbol of that name. Written after the declaration's parameters.
#define VGPU_EXPORT_AS(symbol)                                                 \
  __asm__(symbol) __attribute__((visibility("default")))

namespace vgpu::interposer {

/// Runs the body of an entry point: nothing thrown leaves it, as the caller is
/// C. Each call that fails is named in the driver's log. Not CUDA_SUCCESS
/// before cuInit, in the child of a fork and at exit.
template <class Body>
CUresult guarded(const Body& body) noexcept {
  if (auto refused = process::phase_error(); refused != CUDA_SUCCESS)
      [[unlikely]]
    return refused;
  try {
    auto code = body();
    if (code != CUDA_SUCCESS) [[unlikely]]
      note_failed_call(__PRETTY_FUNCTION__, code);
    return code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    return code_of_exception(e);
  }
}

/// As guarded, for what needs the calling thread's context and a device that
/// has not failed. `body` takes the context.
template <class Body>
CUresult in_context(const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto* current = current_context();
    if (auto why = usable(current); why != CUDA_SUCCESS) [[unlikely]]
      return why;
    return body(*current);
  });
}

/// As guarded, for what is named by a handle: it is of some context, and none
/// need be current. CUDA_SUCCESS is needed of the session alone.
template <class Body>
CUresult by_handle(const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    auto failed = process::session_error();
    return failed != CUDA_SUCCESS ? failed : body();
  });
}

} // namespace vgpu::interposer
