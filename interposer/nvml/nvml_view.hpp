// The devices that NVML reports, and the processes that use them.
#pragma once

#include "interposer/session/guest_channel.hpp"

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Describes a process that has a vGPU on a device.
struct viewed_process {
  unsigned pid = 0;
  unsigned busy = 0; ///< in percent of the last second
  std::uint64_t used = 0;
};
/// Describes a device and the processes that use it.
struct viewed_device {
  device_facts facts;
  std::uint64_t total = 0, used = 0; ///< in bytes
  unsigned busy = 0;                 ///< in percent of the last second
  std::vector<viewed_process> processes;
};

/// Chooses which devices NVML reports.
///
/// A program that uses CUDA itself sees its own session's devices, with its own
/// memory. A program without a session sees the devices of its group, with the
/// sums of the quotas, memory and work of all the group's programs. So a
/// monitor takes no vGPU from the programs that it watches.
///
/// The view opens a session in two cases: where no program of the group has
/// one, and where the group has another number of devices than the program
/// would get. In the second case the program may count devices before it uses
/// them. With VGPU_WATCH=1 the program says that it only watches, and the
/// second case does not apply. Thread-safe.
class nvml_view {
public:
  /// Counts the devices. The number may grow later but never falls.
  CUresult count(unsigned& out);
  /// Describes a device as it is now.
  CUresult device(unsigned index, viewed_device& out);
  /// Lists the processes with a vGPU on a device, in the PID namespace of the
  /// caller. It asks the client even where the program has a session of its
  /// own.
  CUresult processes(unsigned index, std::vector<viewed_process>& out);

private:
  using clock = std::chrono::steady_clock;

  bool has_session() const;
  bool may_watch() const;
  void sample_group();
  CUresult open();
  CUresult own_device(unsigned index, viewed_device& out);
  CUresult own_processes(unsigned index, std::vector<viewed_process>& out);

  std::mutex mutex_;
  bool opened_ = false; // whether the view opened a session
  clock::time_point sampled_{};
  std::vector<viewed_device> group_;
};

} // namespace vgpu::interposer
