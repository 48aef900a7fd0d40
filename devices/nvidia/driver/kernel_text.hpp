// Takes what the driver prints for kernels.
#pragma once

#include "devices/interface/device.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

namespace vgpu::device::nvidia {

/// The driver writes what kernels print to the process's stdout, and what they
/// assert to its stderr, when the program synchronises. A process has one of
/// each: with its first device both become files in memory (a pipe could fill
/// up and block the driver), and from there the text is passed on. Thread-safe.
class kernel_text {
public:
  /// The process's one.
  static std::shared_ptr<kernel_text> instance();

  kernel_text();
  ~kernel_text();

  /// Passes on what was written since the last time.
  void deliver(const printer& to);

private:
  struct catcher {
    int file = -1;
    std::uint64_t read = 0;
  };
  static catcher redirect(int descriptor, const char* name);
  static void deliver(catcher& from, console as, const printer& to);

  std::mutex mutex_;
  std::array<catcher, console_count> catchers_;
};

} // namespace vgpu::device::nvidia
