// The log's next pages are made ready while the program does something else.
#pragma once

#include "schema/log/call_log.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace vgpu::interposer {

/// A program that copies a batch to its device, and computes, and copies the
/// next, finds the pages that it writes to there already, as many as it wrote
/// to the last time. A thread of the library's own does that where a processor
/// has nothing else to do, as it takes more of its time than the program saves;
/// the first long copy starts it. Never destroyed. Thread-safe.
class log_ahead {
public:
  /// `log` is never destroyed either.
  explicit log_ahead(log_writer& log) : log_(log) {}

  /// So many bytes were written.
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
