// The words through which the blocks of cooperative launches synchronise.
#pragma once

#include "schema/log/session_area.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::device::cpu {

/// Hands out grid workspaces, whose addresses kernels read from %envreg1 and
/// %envreg2 (PTX ISA, "Special Registers: %envreg<32>"). They lie in mappings
/// of their own, at addresses that tell nothing about the process's heap and
/// libraries. Thread-safe.
class grid_workspaces : public std::enable_shared_from_this<grid_workspaces> {
public:
  /// Gives the size of a workspace.
  static constexpr std::uint64_t bytes = 64;

  /// Returns a zeroed workspace, which is given back with the last copy of the
  /// pointer; null where the host has no memory.
  std::shared_ptr<void> take();

private:
  std::byte* find();
  bool grow();
  void give_back(std::byte* place);

  std::mutex mutex_;
  std::vector<mapping> mapped_;
  std::vector<std::byte*> free_;
};

} // namespace vgpu::device::cpu
