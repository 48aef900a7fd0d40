// What libnvidia-ml.so.1 asks libcuda.so.1 for: both answer for one session,
// and so with one set of devices. Asked for as cudart asks for its tables
// (cuGetExportTable), under an id of our own.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace vgpu::interposer {

inline constexpr std::array<std::uint8_t, 16> nvml_bridge_id = {
    0x76, 0x67, 0x70, 0x75, 0x2d, 0x6e, 0x76, 0x6d,
    0x6c, 0x2d, 0x62, 0x72, 0x69, 0x64, 0x67, 0x65};

/// A device of the session, whether the program sees it or not
/// (CUDA_VISIBLE_DEVICES is no matter of NVML's).
struct nvml_device_facts {
  char name[96];
  std::uint8_t uuid[16];
  std::uint64_t total; ///< bytes: the quota
  std::uint64_t used;  ///< bytes that are allocated there
  unsigned busy;       ///< percent of the last second
  int pci_domain, pci_bus, pci_device;
  int major, minor; ///< compute capability
  int multiprocessors;
  int core_khz, memory_khz; ///< at most
  int bus_bits;             ///< of its memory
  std::uint64_t reaches; ///< devices whose memory its kernels reach, a bit each
};

/// A process that has a vGPU on a device.
struct nvml_process {
  unsigned pid;
  unsigned busy;      ///< percent of the last second
  std::uint64_t used; ///< bytes
};

/// Slot 0 is the size in bytes, as in all such tables.
struct nvml_bridge {
  std::size_t bytes;
  /// How many devices there are: see nvml_view.hpp. Where the process's session
  /// must be opened for that, it is without what cuInit does besides: a child
  /// that is forked then can still use CUDA.
  CUresult (*open)(unsigned* count);
  /// Precondition: opened.
  CUresult (*device)(unsigned index, nvml_device_facts* out);
  /// Fills in at most `*count` of those on a device, and how many there are.
  CUresult (*processes)(unsigned index, nvml_process* out, unsigned* count);
};

/// The table itself. Precondition for its functions: the driver's state is
/// made.
const nvml_bridge& nvml_bridge_table() noexcept;

} // namespace vgpu::interposer
