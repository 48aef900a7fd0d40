// The handlers of the signal that touching managed memory raises.
#pragma once

#include <csignal>
#include <mutex>

namespace vgpu::interposer {

/// These are the previous handlers of SIGSEGV. When a handler has set itself in
/// front of ours since, it is the latest. If that one passes a signal on to
/// ours, the first handler gets it.
struct fault_handlers {
  /// Guards the setting of handlers. The signal's handler takes no lock.
  std::mutex mutex;
  struct sigaction first {};
  struct sigaction latest {};
  bool watching = false;
};

} // namespace vgpu::interposer
