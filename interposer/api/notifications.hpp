// Notifications of a device that the program has registered.
#pragma once

#include <cuda.h>

namespace vgpu::interposer {

/// Represents a notification that the program registered. Its callback never
/// runs (notification_calls.cpp).
struct notification {
  CUdevice device = 0;
};

} // namespace vgpu::interposer
