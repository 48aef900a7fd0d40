// Opens once; calls who waits for that.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace vgpu {

/// Of callbacks, where std::latch is of threads. Thread-safe.
class latch {
public:
  /// Calls who waits.
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

  /// Calls `f` when it is open: at once where it is.
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
