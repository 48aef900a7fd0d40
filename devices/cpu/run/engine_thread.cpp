#include "devices/cpu/run/engine_thread.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace vgpu::device::cpu {

namespace {

using clock = std::chrono::steady_clock;

// A cluster runs for this long before its thread turns to the others it has.
constexpr auto slice = std::chrono::milliseconds{1};
// After this many slices of a busy cluster its thread begins another one beside
// it. The busy one may be waiting for that one in a way that does not show.
constexpr unsigned patience = 8;
// A thread has at most this many clusters, as many as a multiprocessor holds.
constexpr std::size_t max_resident = 32;
// A thread runs this many clusters of one grid before it turns to other grids.
constexpr int streak = 64;
// The threads run at this niceness relative to the process.
constexpr int thread_nice = 5;

/// Names the engine whose thread this is, while the thread has nothing else and
/// looks for work next.
thread_local const engine* looks_next = nullptr;

} // namespace

bool engine::pool_thread::takes_next(const engine& of) noexcept {
  return std::exchange(looks_next, nullptr) == &of;
}

// -- starting clusters --------------------------------------------------------

bool engine::pool_thread::begin_cluster() {
  if (!current_ || !current_->has_more() || ++started_ > streak) {
    auto lock = std::lock_guard{engine_.mutex_};
    auto next = engine_.choose(started_ > streak ? current_.get() : nullptr);
    started_ = 0;
    if (next != current_)
      spare_.reset();
    current_ = std::move(next);
  }
  if (!current_)
    return false;
  auto number = current_->next.fetch_add(1);
  if (number >= current_->what->clusters())
    return false;
  if (number == 0)
    current_->what->piece.began();
  if (!spare_)
    spare_ = std::make_unique<cluster>(*current_->what, index_);
  spare_->start(number);
  residents_.push_front({current_, std::move(spare_)});
  return true;
}

bool engine::pool_thread::may_begin_more() const {
  // Clusters of other grids do not count against a cooperative grid.
  return residents_.size() < max_resident ||
         (current_ && current_->what->cooperative && current_->has_more());
}

// -- waiting for work ---------------------------------------------------------

bool engine::pool_thread::has_work() const {
  return engine_.stopping_ ||
         (!engine_.frozen_ &&
          std::any_of(engine_.grids_.begin(), engine_.grids_.end(),
                      [](auto& x) { return x->has_more(); }));
}

bool engine::pool_thread::poll_for_work(std::unique_lock<std::mutex>& lock) {
  ++engine_.looking_out_;
  lock.unlock();
  if (here_.busy_poll([&] {
        return engine_.submitted_.load() != seen_ || engine_.paused();
      }))
    return true;
  // submit() may have counted on this thread, so it looks once more.
  lock.lock();
  engine_.looking_out_ -= engine_.looking_out_ != 0 ? 1 : 0;
  return false;
}

bool engine::pool_thread::rest_in_place(std::unique_lock<std::mutex>& lock) {
  auto until = here_.rests_until();
  if (!until)
    return false;
  ++engine_.resting_;
  engine_.rested_.wait_until(lock, *until, [&] {
    return has_work() || engine_.without_work_ == engine_.threads();
  });
  --engine_.resting_;
  if (has_work())
    return true;
  lock.unlock();
  here_.leave();
  lock.lock();
  return false;
}

void engine::pool_thread::wait_for_work() {
  auto lock = std::unique_lock{engine_.mutex_};
  if (std::exchange(may_poll_, false) && engine_.submitted_.load() == seen_ &&
      poll_for_work(lock))
    return;
  // The thread keeps its place while other threads of the pool finish their
  // work.
  if (++engine_.without_work_ == engine_.threads())
    engine_.rested_.notify_all();
  if (!rest_in_place(lock))
    engine_.wake_.wait(lock, [&] { return has_work(); });
  --engine_.without_work_;
}

// -- running clusters ---------------------------------------------------------

void engine::pool_thread::run() {
  // Linux applies this to the one thread. A refusal costs only fairness.
  [[maybe_unused]] auto level = ::nice(thread_nice);
  while (!engine_.stopping_) {
    if (!here_.is_here()) {
      wait_for_work();
      here_.enter();
      continue;
    }
    here_.stay();
    if (residents_.empty())
      seen_ = engine_.submitted_.load();
    if (residents_.empty() && !begin_cluster()) {
      current_.reset();
      spare_.reset();
      may_poll_ = worked_;
      here_.rest(std::exchange(worked_, false));
      continue;
    }
    if (engine_.frozen_) {
      here_.leave();
      auto lock = std::unique_lock{engine_.mutex_};
      engine_.wake_.wait(lock, [&] { return engine_.stopping_.load(); });
      break;
    }
    worked_ = true;
    run_first();
  }
}

void engine::pool_thread::run_first() {
  auto now = std::move(residents_.front());
  residents_.pop_front();
  auto state = now.what->run();
  // Blocks that wait for each other get short turns.
  if (state == block::state::going && !now.of->what->cooperative) {
    auto until = clock::now() + slice;
    while (state == block::state::going && !engine_.paused() &&
           !here_.is_wanted_elsewhere() && clock::now() < until)
      state = now.what->run();
  }
  if (state == block::state::going || state == block::state::idle)
    keep(std::move(now), state);
  else
    end(std::move(now));
}

void engine::pool_thread::keep(resident now, block::state state) {
  // The other clusters get their turn. A new cluster joins one that waits for
  // others, because it may be awaited. A busy one need not be joined soon.
  auto join = state == block::state::idle || now.of->what->cooperative ||
              now.of != current_ || !current_->has_more() ||
              ++now.turns % patience == 0;
  residents_.push_back(std::move(now));
  if (!join || engine_.paused() || !may_begin_more() || !begin_cluster())
    sleep_with_residents();
}

void engine::pool_thread::sleep_with_residents() const {
  auto until = clock::time_point::max();
  for (const auto& x : residents_) {
    until = std::min(until, x.what->sleeps_until());
    if (until == clock::time_point{})
      return;
  }
  std::this_thread::sleep_until(until);
}

void engine::pool_thread::end(resident now) {
  now.what->count_executed();
  auto reuse = now.of == current_ && now.what->error() == CUDA_SUCCESS &&
               now.of->has_more();
  auto result = now.what.get();
  if (reuse)
    spare_ = std::move(now.what);
  looks_next = residents_.empty() ? &engine_ : nullptr;
  engine_.cluster_ended(now.of, *result);
  looks_next = nullptr;
}

} // namespace vgpu::device::cpu
