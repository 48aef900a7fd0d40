#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu {

/// Holds the options that determine the pGPUs of a node.
struct inventory_options {
  /// Holds the node's name, which makes the pGPUs of different nodes differ.
  std::string node;
  /// Holds one of cpu, nvidia or auto.
  std::string device = "auto";
  /// Holds the number of cpu pGPUs.
  std::uint32_t gpus = 1;
  /// Holds the memory of each cpu pGPU, in bytes.
  std::uint64_t memory = std::uint64_t{4} << 30;
  /// Holds the compute capability of each cpu pGPU.
  std::string capability = "9.0";
};

/// Returns the pGPUs that this host offers.
result<std::vector<control::pgpu>> take_inventory(const inventory_options& x);

} // namespace vgpu
