#include "devices/cpu/run/engine.hpp"

#include "devices/cpu/run/engine_thread.hpp"

#include <utility>

namespace vgpu::device::cpu {

engine::engine(unsigned threads, busy_time& busy)
    : busy_(busy), thread_count_(threads) {
  for (auto i = 0u; i < threads; ++i)
    threads_.emplace_back([this, i] { pool_thread{*this, i}.run(); });
}

void engine::stop() {
  {
    auto lock = std::lock_guard{mutex_};
    stopping_ = true;
    for (auto& x : grids_)
      x->what->cancelled = true;
  }
  wake_all();
  for (auto& t : threads_)
    if (t.joinable())
      t.join();
}

void engine::submit(std::shared_ptr<grid> what, finished done) {
  auto x = std::make_shared<running>();
  auto alone = what->clusters() == 1;
  x->left = what->clusters();
  x->what = std::move(what);
  x->done = std::move(done);
  auto rests = false;
  auto is_awaited = false;
  {
    auto lock = std::lock_guard{mutex_};
    grids_.push_back(std::move(x));
    submitted_.fetch_add(1);
    rests = resting_ != 0;
    is_awaited = std::exchange(looking_out_, 0) != 0;
  }
  if (!alone)
    return wake_all();
  // One thread is enough for it: the present one, if it looks for work next,
  // or one that looks out already, or else one that may begin without asking.
  if (!pool_thread::takes_next(*this) && !is_awaited)
    (rests ? rested_ : wake_).notify_one();
}

void engine::wake_all() {
  wake_.notify_all();
  rested_.notify_all();
}

void engine::cancel(running& x) {
  x.what->cancelled = true;
}

void engine::cancel_all() {
  auto lock = std::lock_guard{mutex_};
  for (auto& x : grids_)
    cancel(*x);
}

void engine::freeze() {
  auto lock = std::lock_guard{mutex_};
  frozen_ = true;
}

std::shared_ptr<engine::running> engine::choose(const running* rather_not) {
  // The caller holds mutex_. Turns go round the grids.
  auto second = std::shared_ptr<running>{};
  for (auto i = std::size_t{0}; i < grids_.size(); ++i) {
    auto& x = grids_[(turn_ + i) % grids_.size()];
    if (!x->has_more())
      continue;
    if (x.get() != rather_not) {
      turn_ = (turn_ + i + 1) % grids_.size();
      return x;
    }
    second = x;
  }
  return second;
}

void engine::retire(const std::shared_ptr<running>& x, std::uint64_t clusters) {
  if (x->left.fetch_sub(clusters) != clusters)
    return;
  {
    auto lock = std::lock_guard{mutex_};
    std::erase(grids_, x);
  }
  // Nobody accesses the grid any more.
  auto done = std::move(x->done);
  done(x->error, x->why);
}

void engine::cluster_ended(const std::shared_ptr<running>& of,
                           const cluster& b) {
  auto never = std::uint64_t{0};
  if (b.error() != CUDA_SUCCESS) {
    auto lock = std::lock_guard{mutex_};
    // After stop() the grid failed because it is abandoned, and not by a fault.
    if (stopping_)
      return;
    if (of->error == CUDA_SUCCESS) {
      of->error = b.error();
      of->why = b.why();
    }
    cancel(*of);
    auto count = of->what->clusters();
    auto begun = of->next.exchange(count);
    never = begun < count ? count - begun : 0;
  }
  retire(of, 1 + never);
}

} // namespace vgpu::device::cpu
