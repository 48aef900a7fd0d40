// Green contexts: a part of a device's multiprocessors, and a context by which
// it is used. One handle names both.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/context/device_resource.hpp"

namespace vgpu::interposer {

/// What makes a context a green one. What is made in it is its primary
/// context's; the part that it was given is told again, and its work has all of
/// the vGPU.
struct green_part {
  sm_part what;
};

/// Makes one, and keeps the device's primary context active as long as it
/// lives.
CUresult create_green_context(const sm_part& what, CUgreenCtx& out);

/// Null for what is none.
context* find_green_context(CUgreenCtx handle) noexcept;
/// The handle of a context as that of a green one; null for another.
CUgreenCtx green_handle_of(const context& x) noexcept;

} // namespace vgpu::interposer
