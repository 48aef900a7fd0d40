#include "devices/cpu/run/engine.hpp"

#include <sys/resource.h>
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

struct engine::running {
  std::shared_ptr<grid> what;
  finished done;
  std::atomic<std::uint64_t> next = 0; // the next cluster to start
  std::atomic<std::uint64_t> left = 0; // clusters that have not ended
  CUresult error = CUDA_SUCCESS;       // guarded by mutex_
  std::string why;

  bool has_more() const {
    return next.load(std::memory_order_relaxed) < what->clusters();
  }
};

struct engine::resident {
  std::shared_ptr<running> of;
  std::unique_ptr<cluster> what;
  unsigned turns = 0; // slices that were too short for it
};

engine::engine(unsigned threads, busy_time& busy)
    : busy_(busy), thread_count_(threads) {
  for (auto i = 0u; i < threads; ++i)
    threads_.emplace_back([this, i] { work(i); });
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
  if (std::exchange(looks_next, nullptr) != this && !is_awaited)
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

/// Tells whether the thread may begin another cluster. Clusters of other grids
/// do not count against a cooperative grid.
bool engine::may_begin_more(const std::deque<resident>& mine,
                            const std::shared_ptr<running>& current) const {
  return mine.size() < max_resident ||
         (current && current->what->cooperative && current->has_more());
}

/// Sleeps until the first of the clusters can continue. As a rule one can
/// continue at once.
void engine::sleep_with(const std::deque<resident>& mine) {
  auto until = clock::time_point::max();
  for (const auto& x : mine) {
    until = std::min(until, x.what->sleeps_until());
    if (until == clock::time_point{})
      return;
  }
  std::this_thread::sleep_until(until);
}

void engine::work(unsigned index) {
  nice(thread_nice); // Linux applies this to the one thread
  auto mine = std::deque<resident>{};
  auto current = std::shared_ptr<running>{}; // grid whose clusters it starts
  auto spare = std::unique_ptr<cluster>{};   // fits `current`
  auto taken = 0;
  auto here = busy_time::presence{busy_};
  auto worked = false;
  auto just_worked = false;
  auto seen = std::uint64_t{0}; // grids submitted before its last look
  // Starts a new cluster if there is one to start.
  auto begin = [&]() -> bool {
    if (!current || !current->has_more() || ++taken > streak) {
      auto lock = std::lock_guard{mutex_};
      auto next = choose(taken > streak ? current.get() : nullptr);
      taken = 0;
      if (next != current)
        spare.reset();
      current = std::move(next);
    }
    if (!current)
      return false;
    auto number = current->next.fetch_add(1);
    if (number >= current->what->clusters())
      return false;
    if (!spare)
      spare = std::make_unique<cluster>(*current->what, index);
    spare->start(number);
    mine.push_front({current, std::move(spare)});
    return true;
  };
  auto await_work = [&] {
    auto comes = [&] { return submitted_.load() != seen || paused(); };
    auto lock = std::unique_lock{mutex_};
    if (std::exchange(just_worked, false) && submitted_.load() == seen) {
      ++looking_out_;
      lock.unlock();
      if (here.busy_poll(comes))
        return;
      // submit() may have counted on this thread, so it looks once more.
      lock.lock();
      looking_out_ -= looking_out_ != 0 ? 1 : 0;
    }
    auto has_work = [&] {
      return stopping_ ||
             (!frozen_ && std::any_of(grids_.begin(), grids_.end(),
                                      [](auto& x) { return x->has_more(); }));
    };
    // The thread keeps its place while other threads of the pool finish their
    // work.
    if (++without_work_ == threads())
      rested_.notify_all();
    if (auto until = here.rests_until()) {
      ++resting_;
      rested_.wait_until(lock, *until, [&] {
        return has_work() || without_work_ == threads();
      });
      --resting_;
      if (has_work()) {
        --without_work_;
        return;
      }
      lock.unlock();
      here.leave();
      lock.lock();
    }
    wake_.wait(lock, has_work);
    --without_work_;
  };
  while (!stopping_) {
    if (!here.is_here()) {
      await_work();
      here.enter();
      continue;
    }
    here.stay();
    if (mine.empty())
      seen = submitted_.load();
    if (mine.empty() && !begin()) {
      current.reset();
      spare.reset();
      just_worked = worked;
      here.rest(std::exchange(worked, false));
      continue;
    }
    if (frozen_) {
      here.leave();
      auto lock = std::unique_lock{mutex_};
      wake_.wait(lock, [&] { return stopping_.load(); });
      break;
    }
    worked = true;
    auto now = std::move(mine.front());
    mine.pop_front();
    auto state = now.what->run();
    // Blocks that wait for each other get short turns.
    if (state == block::state::going && !now.of->what->cooperative) {
      auto until = clock::now() + slice;
      while (state == block::state::going && !paused() &&
             !here.is_wanted_elsewhere() && clock::now() < until)
        state = now.what->run();
    }
    if (state == block::state::going || state == block::state::idle) {
      // The other clusters get their turn. A new cluster joins one that waits
      // for others, because it may be awaited. One that is busy need not be
      // joined soon.
      auto join = state == block::state::idle || now.of->what->cooperative ||
                  now.of != current || !current->has_more() ||
                  ++now.turns % patience == 0;
      mine.push_back(std::move(now));
      if (!join || paused() || !may_begin_more(mine, current) || !begin())
        sleep_with(mine);
      continue;
    }
    now.what->count_executed();
    auto of = std::move(now.of);
    auto ended = std::move(now.what);
    auto reuse =
        of == current && ended->error() == CUDA_SUCCESS && of->has_more();
    auto result = ended.get();
    if (reuse)
      spare = std::move(ended);
    looks_next = mine.empty() ? this : nullptr;
    cluster_ended(of, *result);
    looks_next = nullptr;
  }
}

} // namespace vgpu::device::cpu
