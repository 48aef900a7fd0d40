#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vgpu {

struct inventory_options {
  std::string node;            // its name: pGPUs of different nodes differ
  std::string device = "auto"; // cpu, nvidia or auto
  std::uint32_t gpus = 1;      // how many cpu pGPUs to offer
  std::uint64_t memory = std::uint64_t{4} << 30; // of each cpu pGPU, bytes
  std::string capability = "9.0";                // of each cpu pGPU
};

/// The pGPUs that this host offers.
result<std::vector<control::pgpu>> take_inventory(const inventory_options& x);

} // namespace vgpu
