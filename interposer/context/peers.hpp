// Devices that can use each other's memory.
#pragma once

#include "interposer/session/guest_channel.hpp"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace vgpu::interposer {

struct context;

/// Holds the pairs of contexts for which the program enabled peer access
/// (cuCtxEnablePeerAccess). Copies do not need it. Thread-safe.
class peer_list {
public:
  /// Adds a pair. Returns false where the list has it already.
  bool add(const context& from, const context& to);
  /// Removes a pair. Returns false where the list does not have it.
  bool remove(const context& from, const context& to);
  /// Tells whether any context of one device may use memory of the other.
  bool allow(std::uint8_t from, std::uint8_t to);

private:
  std::mutex mutex_;
  std::map<std::pair<const context*, const context*>,
           std::pair<std::uint8_t, std::uint8_t>>
      // The values are the contexts' devices.
      pairs_;
};
/// Returns the process's list. Precondition: the driver's state is made.
peer_list& peers() noexcept;

/// Tells whether two devices can use each other's memory. Devices of a session
/// whose CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD names the same board lie in one
/// worker process and can do so. The links between real GPUs do not matter
/// here.
inline bool can_reach(const device_facts& a, const device_facts& b) noexcept {
  return &a != &b && a.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) != 0 &&
         b.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) != 0 &&
         a.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID) ==
             b.value_of(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
}

} // namespace vgpu::interposer
