// The part of nvml.h that this library uses: types and numbers of the binary
// interface (NVML API Reference). Toolkits need not have that header.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vgpu::nvml {

/// Mirrors nvmlReturn_t.
enum class code : int {
  success = 0,
  uninitialized = 1,
  invalid_argument = 2,
  not_supported = 3,
  no_permission = 4,
  already_initialized = 5,
  not_found = 6,
  insufficient_size = 7,
  insufficient_power = 8,
  driver_not_loaded = 9,
  timeout = 10,
  irq_issue = 11,
  library_not_found = 12,
  function_not_found = 13,
  corrupted_inforom = 14,
  gpu_is_lost = 15,
  reset_required = 16,
  operating_system = 17,
  lib_rm_version_mismatch = 18,
  in_use = 19,
  memory = 20,
  no_data = 21,
  vgpu_ecc_not_supported = 22,
  insufficient_resources = 23,
  freq_not_supported = 24,
  argument_version_mismatch = 25,
  deprecated = 26,
  not_ready = 27,
  gpu_not_found = 28,
  invalid_state = 29,
  unknown = 999,
};

/// Mirrors nvmlDevice_t.
struct device;

/// Mirrors nvmlGpuP2PCapsIndex_t: the accesses of one device to another's
/// memory.
enum class p2p_caps : unsigned {
  read = 0,
  write = 1,
  nvlink = 2,
  atomics = 3,
  pci = 4,
};
/// Mirrors nvmlGpuP2PStatus_t.
enum class p2p_status : unsigned { ok = 0, not_supported = 5 };

/// Mirrors nvmlClockType_t.
enum class clock_kind : unsigned {
  graphics = 0,
  sm = 1,
  memory = 2,
  video = 3
};

/// Mirrors nvmlMemory_t, in bytes.
struct memory {
  unsigned long long total, free, used;
};
/// Mirrors nvmlMemory_v2_t, in bytes.
struct memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
/// Computes the version field of a struct, which has the struct's size in its
/// lower bytes (NVML_STRUCT_VERSION).
constexpr unsigned version_of(std::size_t bytes, unsigned version) {
  return static_cast<unsigned>(bytes) | version << 24;
}

/// Mirrors nvmlPciInfo_t as of version 2 of the calls that fill it.
struct pci_info {
  char legacy_id[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char id[32];
};
/// Mirrors nvmlPciInfo_v2_t, whose layout begins like the first version's.
struct pci_info_v2 {
  char id[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  unsigned reserved[4];
};
/// Mirrors nvmlUtilization_t, in percent of the time.
struct utilization {
  unsigned gpu, memory;
};
/// Mirrors nvmlProcessUtilizationSample_t, in percent and in microseconds since
/// 1970.
struct process_utilization {
  unsigned pid;
  unsigned long long at;
  unsigned sm, memory, encoder, decoder;
};
/// Mirrors nvmlProcessInfo_v1_t.
struct process_info_v1 {
  unsigned pid;
  unsigned long long used_bytes;
};
/// Mirrors nvmlProcessInfo_v2_t, and nvmlProcessInfo_t as of version 2 of the
/// calls.
struct process_info {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
/// Marks, in place of an instance, that the device is not partitioned.
inline constexpr unsigned no_instance = 0xffffffff;

inline constexpr int cuda_13_0 = 13000;

} // namespace vgpu::nvml

/// Declares an exported function: C, visible, and without exceptions.
#define VGPU_NVML(name)                                                        \
  extern "C" __attribute__((visibility("default"))) vgpu::nvml::code name
