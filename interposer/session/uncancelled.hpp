// Keeps a thread's cancellation out of this library's work.
#pragma once

#include <pthread.h>

namespace vgpu::interposer {

/// While it exists, the calling thread is not cancelled (pthread_cancel), but
/// afterwards, at the program's own next cancellation point. A cancellation
/// unwinds the stack, which must not happen in the middle of an entry point.
class uncancelled {
public:
  uncancelled() noexcept {
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  uncancelled(const uncancelled&) = delete;
  uncancelled& operator=(const uncancelled&) = delete;
  ~uncancelled() { ::pthread_setcancelstate(before_, nullptr); }

private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

} // namespace vgpu::interposer
