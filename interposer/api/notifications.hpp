// Notifications of a device that the program has registered.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// One that the program asked for. It never comes (notification_calls.cpp).
struct notification {
  CUdevice device = 0;
};

} // namespace vgpu::interposer
