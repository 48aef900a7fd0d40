// Devices that reach each other's memory.
#pragma once

#include "interposer/guest_channel.hpp"

#include <cuda.h>

namespace vgpu::interposer {

/// Devices on one board, as they tell it (CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD):
/// those of a session that lie in one process are. What links there are
/// between real GPUs nobody tells.
inline bool can_reach(const device_facts& a, const device_facts& b) noexcept {
  return &a != &b && a.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) != 0 &&
         b.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) != 0 &&
         a.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID) ==
             b.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
}

} // namespace vgpu::interposer
