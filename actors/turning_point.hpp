// Something that happens once, and who waits for it.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace vgpu {

/// Thread-safe.
class turning_point {
public:
  /// Tells who waits for it.
  void reach() {
    std::vector<std::function<void()>> told;
    {
      std::lock_guard guard{lock_};
      reached_ = true;
      told.swap(waiting_);
    }
    for (auto& f : told)
      f();
  }

  /// Calls `f` when it is reached: at once where it has been.
  void when_reached(std::function<void()> f) {
    {
      std::lock_guard guard{lock_};
      if (!reached_) {
        waiting_.push_back(std::move(f));
        return;
      }
    }
    f();
  }

private:
  std::mutex lock_;
  bool reached_ = false;
  std::vector<std::function<void()>> waiting_;
};

} // namespace vgpu
