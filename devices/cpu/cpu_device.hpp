// A software GPU, which executes PTX on the host's processors.
#pragma once

#include "devices/interface/device.hpp"

namespace vgpu::device {

/// Describes the shape of one cpu pGPU.
struct cpu_options {
  int ordinal = 0;                               // gives its UUID and PCI bus
  std::uint64_t memory = std::uint64_t{4} << 30; // bytes
  unsigned threads = 0; // 0: one for each processor that it may use
  /// The compute capability is 90 for 9.0. Programs and libraries choose by it
  /// which of their code they load. The limits are those of 9.0 for every
  /// capability.
  unsigned capability = 90;
  /// With a number other than 0 the device acts in three ways as a GPU and its
  /// driver do, so that tests find what waits for itself there: streams share
  /// so many channels, each of which runs its work in order; a call that adds
  /// work to a full channel waits; and so does one that loads code or pins
  /// memory, for all streams.
  unsigned channels = 0;
  /// A channel with so many pieces of work is full. 0: none ever is.
  unsigned pieces_in_channel = 0;
};

/// Returns the properties of a cpu pGPU of this shape, without opening it.
properties cpu_properties(const cpu_options& options);

/// Opens a session's part of a cpu pGPU. The session can map at most `quota`
/// bytes of memory.
std::unique_ptr<device> open_cpu_device(const cpu_options& options,
                                        std::uint64_t quota);
/// Changes the quota of a device that open_cpu_device() made. The thread that
/// calls the device calls this.
void allow_cpu_device(device& which, std::uint64_t quota);

} // namespace vgpu::device
