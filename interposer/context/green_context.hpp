// Green contexts. Each combines a part of a device's multiprocessors with a
// context that uses this part; one handle names both.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/context/device_resource.hpp"

namespace vgpu::interposer {

/// Holds the additional state of a green context. The primary context owns the
/// objects that are made in it. The program can read the part back, but its
/// work may use the whole vGPU.
struct green_part {
  sm_part what;
};

/// Makes a green context, which keeps the device's primary context active as
/// long as it lives.
CUresult create_green_context(const sm_part& what, CUgreenCtx& out);

/// Finds a green context, or null when the handle names none.
context* find_green_context(CUgreenCtx handle) noexcept;
/// Returns a green context's handle, or null for another context.
CUgreenCtx green_handle_of(const context& x) noexcept;

} // namespace vgpu::interposer
