#include "devices/cpu/run/value_watch.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace vgpu::device::cpu {

void value_watch::add(std::function<bool()> so, std::function<void()> then) {
  {
    auto lock = std::lock_guard{mutex_};
    if (stopping_)
      return;
    if (!thread_.joinable())
      thread_ = std::thread{[this] { run(); }};
    added_.push_back({std::move(so), std::move(then)});
  }
  wake_.notify_one();
}

void value_watch::stop() {
  {
    auto lock = std::lock_guard{mutex_};
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

void value_watch::run() {
  using namespace std::chrono_literals;
  constexpr auto soonest = 20us, latest = 1000us;
  auto pause = soonest;
  auto watched = std::vector<entry>{};
  auto lock = std::unique_lock{mutex_};
  while (true) {
    auto news = [&] { return stopping_ || !added_.empty(); };
    if (watched.empty())
      wake_.wait(lock, news);
    else
      wake_.wait_for(lock, pause, news);
    if (stopping_)
      return;
    pause = added_.empty() ? std::min(2 * pause, latest) : soonest;
    std::move(added_.begin(), added_.end(), std::back_inserter(watched));
    added_.clear();
    lock.unlock();
    auto first_so = std::stable_partition(watched.begin(), watched.end(),
                                          [](auto& x) { return !x.so(); });
    auto ready = std::vector<entry>(std::make_move_iterator(first_so),
                                    std::make_move_iterator(watched.end()));
    watched.erase(first_so, watched.end());
    for (auto& x : ready)
      x.then();
    if (!ready.empty())
      pause = soonest; // one change often leads to the next
    ready.clear();
    lock.lock();
  }
}

} // namespace vgpu::device::cpu
