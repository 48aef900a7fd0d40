// The limits of contexts (cuCtxSetLimit), and how a device gets them.
#pragma once

#include "interposer/context/context.hpp"

namespace vgpu::interposer {

/// Gives a context the limits that each context begins with.
void begin_limits(context& x) noexcept;

} // namespace vgpu::interposer
