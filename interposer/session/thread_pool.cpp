#include "interposer/session/thread_pool.hpp"

#include "interposer/session/own_thread.hpp"
#include "interposer/session/uncancelled.hpp"
#include "schema/base/processors.hpp"

#include <algorithm>

namespace vgpu::interposer {

void thread_pool::run(std::size_t parts,
                      const std::function<void(std::size_t)>& job) {
  std::unique_lock busy{busy_, std::try_to_lock};
  if (busy)
    start(parts);
  if (!busy || helpers_ == 0) {
    for (std::size_t part = 0; part < parts; ++part)
      job(part);
    return;
  }
  uncancelled through;
  std::unique_lock guard{mutex_};
  work_ = &job;
  parts_ = left_ = parts;
  next_ = 0;
  wanted_.notify_all();
  run_parts(guard);
  done_.wait(guard, [this] { return left_ == 0; });
}

void thread_pool::start(std::size_t parts) {
  if (started_)
    return;
  started_ = true;
  for (auto wanted = std::min<std::size_t>(parts, own_processors()); wanted > 1;
       --wanted)
    if (start_own_thread([this] { serve(); }))
      ++helpers_;
}

void thread_pool::serve() {
  std::unique_lock guard{mutex_};
  for (;;) {
    wanted_.wait(guard, [this] { return next_ < parts_; });
    run_parts(guard);
  }
}

void thread_pool::run_parts(std::unique_lock<std::mutex>& guard) {
  while (next_ < parts_) {
    auto part = next_++;
    guard.unlock();
    (*work_)(part);
    guard.lock();
    if (--left_ == 0)
      done_.notify_one();
  }
}

} // namespace vgpu::interposer
