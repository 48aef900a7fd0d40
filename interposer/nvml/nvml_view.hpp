// The devices that NVML tells of, and who uses them.
#pragma once

#include "interposer/session/guest_channel.hpp"

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Of a device's: a process with a vGPU there.
struct viewed_process {
  unsigned pid = 0;
  unsigned busy = 0; ///< percent of the last second
  std::uint64_t used = 0;
};
struct viewed_device {
  device_facts facts;
  std::uint64_t total = 0, used = 0; ///< bytes
  unsigned busy = 0;                 ///< percent of the last second
  std::vector<viewed_process> processes;
};

/// A program that uses CUDA itself sees its own session's devices, and
/// their memory is its own. One that has no session sees the devices of its
/// group, if that has some: quotas, memory and work of all its programs added
/// up. So monitors take no vGPU from those whom they watch. Where nobody of
/// the group has one, a session is opened; so it is where the group has another
/// number of devices than the program would get, as it may be one that counts
/// devices before it uses them, unless it says that it only watches
/// (VGPU_WATCH=1). Thread-safe.
class nvml_view {
public:
  /// How many devices there are. Later they may become more, never fewer.
  CUresult count(unsigned& out);
  /// What there is to tell of one now.
  CUresult device(unsigned index, viewed_device& out);
  /// Who has a vGPU there, in the PID namespace of who asks. The client is
  /// asked, also by who has a session of its own.
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
  bool opened_ = false; // a session, for us
  clock::time_point sampled_{};
  std::vector<viewed_device> group_;
};

} // namespace vgpu::interposer
