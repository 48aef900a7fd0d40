// Who handles the signal that touching managed memory raises.
#pragma once

#include <csignal>
#include <mutex>

namespace vgpu::interposer {

/// Who handled SIGSEGV before. One that set itself in front of us since, and
/// was found there, is the latest; should it pass a signal on to us again, the
/// first is asked.
struct fault_handlers {
  std::mutex mutex; ///< of who sets them; the signal's handler takes no lock
  struct sigaction first {};
  struct sigaction latest {};
  bool watching = false;
};

} // namespace vgpu::interposer
