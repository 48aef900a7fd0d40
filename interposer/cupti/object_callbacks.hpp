// What a subscriber hears of objects: streams that come and go, and waits.
#pragma once

#include "interposer/cupti/cupti_abi.hpp"
#include "interposer/cupti/cupti_bridge.hpp"

namespace vgpu::cupti {

/// Tells the subscriber of the stream that this call makes or destroys, or of
/// the stream or context that it has waited for. A call that fails tells
/// nothing.
void tell_of_object(const interposer::activity& x, site where);

} // namespace vgpu::cupti
