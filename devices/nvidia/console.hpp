// Takes what the driver prints for kernels.
#pragma once

#include "devices/device.hpp"

#include <cstdint>
#include <memory>
#include <mutex>

namespace vgpu::device::nvidia {

/// The driver writes kernels' text to the process's stdout when the program
/// synchronises. There is one stdout: the first device of a process makes it a
/// file in memory (a pipe could fill up and block the driver), and from there
/// the text is passed on. Thread-safe.
class console {
public:
  /// The process's one.
  static std::shared_ptr<console> instance();

  console();
  ~console();

  /// Passes on what has been printed since the last time.
  void deliver(const printer& to);

private:
  int file_ = -1;
  std::mutex mutex_;
  std::uint64_t read_ = 0;
};

} // namespace vgpu::device::nvidia
