// What NVML tells of the vGPUs, read all at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace vgpu::smi {

/// A process that has memory on a vGPU.
struct gpu_process {
  unsigned pid = 0;
  std::string name; ///< as its command line begins; empty: not to be seen
  std::uint64_t used_bytes = 0;
};

/// One vGPU. Nothing where NVML does not know.
struct gpu {
  unsigned index = 0;
  std::string name, uuid, bus_id;
  std::uint64_t total_bytes = 0, used_bytes = 0, free_bytes = 0;
  int major = 0, minor = 0;             ///< compute capability
  std::optional<unsigned> busy_percent; ///< utilization.gpu
  std::optional<unsigned> core_mhz_at_most, memory_mhz_at_most;
  std::vector<gpu_process> processes;
};

struct snapshot {
  std::string driver_version;
  int cuda_version = 0; ///< 13000 is 13.0
  std::vector<gpu> gpus;
};

/// Why there is no answer, and the exit code that nvidia-smi has for it.
struct failure {
  std::string what;
  int code = 255;
};

/// Asks the libnvidia-ml.so.1 that the loader finds. It is opened the first
/// time and stays open.
std::variant<snapshot, failure> take_snapshot();

} // namespace vgpu::smi
