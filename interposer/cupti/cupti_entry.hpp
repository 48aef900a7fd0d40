// Support for CUPTI's functions, whose callers are C.
#pragma once

#include "interposer/cupti/cupti_abi.hpp"

#include <exception>
#include <new>

namespace vgpu::cupti {

/// Returns the code of the last call of this thread that failed.
inline code& last_error() noexcept {
  thread_local auto x = code::success;
  return x;
}

/// Runs the body of a function. No exception leaves it.
template <class Body>
code entry(const Body& body) noexcept {
  auto out = code::unknown;
  try {
    out = body();
  } catch (const std::bad_alloc&) {
    out = code::out_of_memory;
  } catch (const std::exception&) {
    out = code::unknown;
  }
  if (out != code::success)
    last_error() = out;
  return out;
}

} // namespace vgpu::cupti
