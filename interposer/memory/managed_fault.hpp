// Who handles the signal that touching managed memory raises.
#pragma once

#include <csignal>
#include <mutex>

namespace vgpu::interposer {

/// These handled SIGSEGV before. A handler that set itself in front of ours
/// since, and was found there, is the latest; should it pass a signal on to
/// ours again, the first gets it.
struct fault_handlers {
  std::mutex mutex; ///< of who sets them; the signal's handler takes no lock
  struct sigaction first {};
  struct sigaction latest {};
  bool watching = false;
};

} // namespace vgpu::interposer
