// The part of the driver's state that belongs to cupti/.
#pragma once

#include "interposer/cupti/activity_log.hpp"
#include "interposer/cupti/trace_file.hpp"
#include "interposer/session/state_part.hpp"

#include <mutex>

namespace vgpu::interposer {

/// Owns what traces the program. Tools may ask for it before cuInit.
class cupti_part : public state_part<cupti_part> {
public:
  activity_log log;
  trace_file file{log};

  /// Begins what was asked for before there was a session. Each cuInit that
  /// succeeds calls it. Thread-safe.
  void session_began() noexcept;

  /// Gathers activities for tools, at once or when there is a session.
  CUresult want_for_tool(bool on);

private:
  std::mutex mutex_;
  bool file_began_ = false;
  bool tool_wants_ = false;
};

} // namespace vgpu::interposer
