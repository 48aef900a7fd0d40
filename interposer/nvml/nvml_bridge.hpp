// The interface of libcuda.so.1 for libnvidia-ml.so.1, by which both libraries
// use one session and so report the same devices. libnvidia-ml.so.1 gets it
// from cuGetExportTable, as cudart gets its tables, by an id of this project.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace vgpu::interposer {

inline constexpr std::array<std::uint8_t, 16> nvml_bridge_id = {
    0x76, 0x67, 0x70, 0x75, 0x2d, 0x6e, 0x76, 0x6d,
    0x6c, 0x2d, 0x62, 0x72, 0x69, 0x64, 0x67, 0x65};

/// Describes a device of the session, whether the program sees it or not,
/// because NVML ignores CUDA_VISIBLE_DEVICES.
struct nvml_device_facts {
  char name[96];
  std::uint8_t uuid[16];
  std::uint64_t total; ///< the quota, in bytes
  std::uint64_t used;  ///< memory in use, in bytes
  unsigned busy;       ///< in percent of the last second
  int pci_domain, pci_bus, pci_device;
  int major, minor; ///< compute capability
  int multiprocessors;
  int core_khz, memory_khz; ///< highest clocks, in kHz
  int bus_bits;             ///< width of the memory bus
  /// Bit i is set where the device's kernels reach the memory of device i.
  std::uint64_t reaches;
};

/// Describes a process that has a vGPU on a device.
struct nvml_process {
  unsigned pid;
  unsigned busy;      ///< in percent of the last second
  std::uint64_t used; ///< in bytes
};

/// Holds the functions as an export table, whose first slot is its size in
/// bytes.
struct nvml_bridge {
  std::size_t bytes;
  /// Counts the devices (nvml_view.hpp). Where that needs a session, it opens
  /// one without the rest of cuInit, so that a child of a later fork can still
  /// use CUDA.
  CUresult (*open)(unsigned* count);
  /// Describes a device. Precondition: open() succeeded.
  CUresult (*device)(unsigned index, nvml_device_facts* out);
  /// Fills in at most `*count` processes of a device, and sets `*count` to the
  /// number of all its processes.
  CUresult (*processes)(unsigned index, nvml_process* out, unsigned* count);
};

/// Returns the table. Its functions require that the driver's state is made.
const nvml_bridge& nvml_bridge_table() noexcept;

} // namespace vgpu::interposer
