// Preparing the log's next pages while the program does something else.
#pragma once

#include "schema/log/call_log.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace vgpu::interposer {

/// Prepares the log's next pages, as many as the program's last long copy
/// wrote, so that its next long copy finds them mapped. A thread of the library
/// does that, and only where a processor is idle, because the work costs this
/// thread more time than it saves the program. The first long copy starts the
/// thread. Never destroyed. Thread-safe.
class log_ahead {
public:
  /// `log` must never be destroyed.
  explicit log_ahead(log_writer& log) : log_(log) {}

  /// Notes that the program wrote so many bytes to the log.
  void wrote(std::uint64_t bytes);

private:
  void serve();

  log_writer& log_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  bool started_ = false;
  bool asleep_ = false;
  std::uint64_t written_ = 0;
};

} // namespace vgpu::interposer
