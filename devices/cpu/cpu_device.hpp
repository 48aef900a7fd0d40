// A software GPU: executes PTX on the host's cores.
#pragma once

#include "devices/interface/device.hpp"

namespace vgpu::device {

/// The shape of one cpu pGPU.
struct cpu_options {
  int ordinal = 0;                               // names it: UUID, PCI bus
  std::uint64_t memory = std::uint64_t{4} << 30; // bytes
  unsigned threads = 0; // 0: one for each processor that it may use
  /// Compute capability, 90 for 9.0: by it programs and libraries choose which
  /// of their code they hand over. Limits are those of 9.0 with each.
  unsigned capability = 90;
};

/// What a cpu pGPU of this shape tells of itself, without opening it.
properties cpu_properties(const cpu_options& options);

/// Opens a session's part of a cpu pGPU. At most `quota` bytes of memory can
/// be mapped.
std::unique_ptr<device> open_cpu_device(const cpu_options& options,
                                        std::uint64_t quota);
/// Raises that quota. By the thread that calls the device.
void allow_cpu_device(device& which, std::uint64_t quota);

} // namespace vgpu::device
