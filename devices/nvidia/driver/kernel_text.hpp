// Catches the text that the driver prints for kernels.
#pragma once

#include "devices/interface/device.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

namespace vgpu::device::nvidia {

/// Redirects the process's stdout and stderr into files in memory and passes
/// the text on. The driver writes the text of kernels' printf and assert there
/// when the process synchronises. A pipe in place of a file could fill up and
/// block the driver. A process has one of these, from its first device on.
/// Thread-safe.
class kernel_text {
public:
  /// Returns the process's only instance.
  static std::shared_ptr<kernel_text> instance();

  kernel_text();
  ~kernel_text();

  /// Passes on the text that was written since the last call.
  void deliver(const printer& to);

private:
  struct catcher {
    int file = -1;
    std::uint64_t read = 0;
  };
  static catcher redirect(int descriptor, const char* name);
  static void deliver(catcher& from, console as, const printer& to);

  std::mutex mutex_;
  std::array<catcher, text_console_count> catchers_;
};

} // namespace vgpu::device::nvidia
