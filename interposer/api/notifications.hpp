// Notifications of a device that the program has registered.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// This is a notification that the program registered. It never comes
/// (notification_calls.cpp).
struct notification {
  CUdevice device = 0;
};

} // namespace vgpu::interposer
