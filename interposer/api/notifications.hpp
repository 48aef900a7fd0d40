// Notifications of a device that the program has registered.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// The program asked for this notification. It never comes
/// (notification_calls.cpp).
struct notification {
  CUdevice device = 0;
};

} // namespace vgpu::interposer
