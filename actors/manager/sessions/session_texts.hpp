// The texts by which events and refusals name sessions and places.
#pragma once

#include "actors/records/records.hpp"

#include <string>

namespace vgpu {

/// Returns "vGPU 7".
inline std::string text_of_vgpu(const session_record& x) {
  return "vGPU " + std::to_string(x.vgpu.value);
}

/// Returns "node-1 pGPU 0 1".
inline std::string text_of_place(const policy::place& x) {
  auto out = x.node + " pGPU";
  for (auto pgpu : x.pgpus)
    out += " " + std::to_string(pgpu);
  return out;
}

} // namespace vgpu
