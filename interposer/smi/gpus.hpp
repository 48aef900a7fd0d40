// NVML's data about the vGPUs, read all at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace vgpu::smi {

/// Describes a process that has memory on a vGPU.
struct gpu_process {
  unsigned pid = 0;
  /// Holds the first word of its command line, or is empty where that is not
  /// readable.
  std::string name;
  std::uint64_t used_bytes = 0;
};

/// Describes one vGPU. A value is empty where NVML does not know it.
struct gpu {
  unsigned index = 0;
  std::string name, uuid, bus_id;
  std::uint64_t total_bytes = 0, used_bytes = 0, free_bytes = 0;
  int major = 0, minor = 0;             ///< compute capability
  std::optional<unsigned> busy_percent; ///< utilization.gpu
  std::optional<unsigned> core_mhz_at_most, memory_mhz_at_most;
  std::vector<gpu_process> processes;
};

/// Holds everything that nvidia-smi reports.
struct snapshot {
  std::string driver_version;
  int cuda_version = 0; ///< 13000 for 13.0
  std::vector<gpu> gpus;
};

/// Is nvidia-smi's exit code for a wrong command line.
inline constexpr int wrong_usage = 2;

/// Says why a request failed, with nvidia-smi's exit code for it.
struct failure {
  std::string what;
  int code = 255;
};

/// Takes a snapshot through the libnvidia-ml.so.1 that the loader finds. The
/// library is opened the first time and stays open.
std::variant<snapshot, failure> take_snapshot();

} // namespace vgpu::smi
