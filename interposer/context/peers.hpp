// Devices that reach each other's memory.
#pragma once

#include "interposer/session/guest_channel.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace vgpu::interposer {

struct context;

/// Which context may use which other's memory, as the program asked
/// (cuCtxEnablePeerAccess). Copies need no such leave. Thread-safe.
class peer_list {
public:
  /// False where it was so already.
  bool add(const context& from, const context& to);
  bool remove(const context& from, const context& to);
  /// Whether any context of one device may use memory of the other.
  bool allow(std::uint8_t from, std::uint8_t to);

private:
  std::mutex mutex_;
  std::map<std::pair<const context*, const context*>,
           std::pair<std::uint8_t, std::uint8_t>>
      pairs_; // and their devices
};
/// Gives the process's list. Precondition: the driver's state is made.
peer_list& peers() noexcept;

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
