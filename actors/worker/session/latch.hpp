// A latch for callbacks, as std::latch is for threads.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace vgpu {

/// Opens once, and then calls all callbacks that wait for it. Thread-safe.
class latch {
public:
  /// Opens the latch, and calls the waiting callbacks on this thread.
  void open() {
    std::vector<std::function<void()>> told;
    {
      std::lock_guard guard{lock_};
      open_ = true;
      told.swap(waiting_);
    }
    for (auto& f : told)
      f();
  }

  /// Calls `f` once the latch is open: at once, on this thread, if it is open
  /// already, or else in open().
  void when_open(std::function<void()> f) {
    {
      std::lock_guard guard{lock_};
      if (!open_) {
        waiting_.push_back(std::move(f));
        return;
      }
    }
    f();
  }

private:
  std::mutex lock_;
  bool open_ = false;
  std::vector<std::function<void()>> waiting_;
};

} // namespace vgpu
