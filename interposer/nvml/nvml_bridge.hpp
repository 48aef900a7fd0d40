// The interface of libcuda.so.1 for libnvidia-ml.so.1. Through it both answer
// for one session, and so with the same devices. As cudart does for its tables,
// the library asks cuGetExportTable for it, by an id of our own.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace vgpu::interposer {

inline constexpr std::array<std::uint8_t, 16> nvml_bridge_id = {
    0x76, 0x67, 0x70, 0x75, 0x2d, 0x6e, 0x76, 0x6d,
    0x6c, 0x2d, 0x62, 0x72, 0x69, 0x64, 0x67, 0x65};

/// This describes a device of the session, whether the program sees it or not,
/// because NVML ignores CUDA_VISIBLE_DEVICES.
struct nvml_device_facts {
  char name[96];
  std::uint8_t uuid[16];
  std::uint64_t total; ///< This is the quota in bytes.
  std::uint64_t used;  ///< This is the memory in use, in bytes.
  unsigned busy;       ///< This is in percent of the last second.
  int pci_domain, pci_bus, pci_device;
  int major, minor; ///< This is the compute capability.
  int multiprocessors;
  int core_khz, memory_khz; ///< These are the highest clocks, in kHz.
  int bus_bits;             ///< This is the width of its memory bus.
  /// Bit i tells whether its kernels reach the memory of device i.
  std::uint64_t reaches;
};

/// This is a process that has a vGPU on a device.
struct nvml_process {
  unsigned pid;
  unsigned busy;      ///< This is in percent of the last second.
  std::uint64_t used; ///< This is in bytes.
};

/// The bridge is an export table, whose first slot is its size in bytes.
struct nvml_bridge {
  std::size_t bytes;
  /// Counts the devices (nvml_view.hpp). Where that needs a session, it opens
  /// one without the rest of cuInit, so that a child of a later fork can still
  /// use CUDA.
  CUresult (*open)(unsigned* count);
  /// Describes a device. Precondition: open() succeeded.
  CUresult (*device)(unsigned index, nvml_device_facts* out);
  /// Fills in at most `*count` processes of a device, and sets `*count` to how
  /// many there are.
  CUresult (*processes)(unsigned index, nvml_process* out, unsigned* count);
};

/// Returns the table. Its functions require that the driver's state is made.
const nvml_bridge& nvml_bridge_table() noexcept;

} // namespace vgpu::interposer
