// The handlers of the signal that touching managed memory raises.
#pragma once

#include <csignal>
#include <mutex>

namespace vgpu::interposer {

/// Holds the previous handlers of SIGSEGV. `latest` differs from `first` where
/// the program set its own handler in front of ours. If that handler passes a
/// signal on to ours, `first` gets the signal.
struct fault_handlers {
  /// Guards the setting of handlers. The signal's handler takes no lock.
  std::mutex mutex;
  struct sigaction first {};
  struct sigaction latest {};
  bool watching = false;
};

} // namespace vgpu::interposer
