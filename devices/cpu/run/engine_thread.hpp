// One thread of the engine's pool, and the grids that its clusters belong to.
#pragma once

#include "devices/cpu/run/engine.hpp"

#include <deque>

namespace vgpu::device::cpu {

/// Holds a grid with clusters to start or to end.
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

/// Executes clusters on one thread of the pool: starts them, runs each of its
/// residents for a slice in turn, and waits for work when it has none. Only
/// that thread uses it.
class engine::pool_thread {
public:
  pool_thread(engine& of, unsigned index)
      : engine_(of), index_(index), here_(of.busy_) {}

  /// Runs until the engine stops.
  void run();

  /// Returns whether the calling thread is one of `of` that looks for work next
  /// anyway, and so needs no wake-up. Returns true once for each time that it
  /// looks.
  static bool takes_next(const engine& of) noexcept;

private:
  /// Holds a cluster that this thread has started.
  struct resident {
    std::shared_ptr<running> of;
    std::unique_ptr<cluster> what;
    unsigned turns = 0; // slices that were too short for it
  };

  /// Starts another cluster. Returns false where there is none to start.
  bool begin_cluster();
  /// Returns whether the thread may start another cluster.
  bool may_begin_more() const;

  /// Waits until there may be work, or the engine stops or freezes.
  void wait_for_work();
  /// Busy-polls for a submission. Returns whether it came; otherwise holds the
  /// lock as before.
  bool poll_for_work(std::unique_lock<std::mutex>& lock);
  /// Waits in the thread's reserved place, and gives the place up after its
  /// time. Returns whether work came before that.
  bool rest_in_place(std::unique_lock<std::mutex>& lock);
  /// Returns whether a grid has clusters to start, or the engine stops. The
  /// caller holds the engine's lock.
  bool has_work() const;

  /// Runs the first resident for a slice.
  void run_first();
  /// Puts a cluster that has not ended behind the others, and starts another
  /// one where this one may wait for it.
  void keep(resident now, block::state state);
  /// Sleeps until the first of the residents can continue. As a rule one can
  /// continue at once.
  void sleep_with_residents() const;
  /// Reports the end of a cluster to its grid.
  void end(resident now);

  engine& engine_;
  unsigned index_;
  std::deque<resident> residents_;
  std::shared_ptr<running> current_; // the grid whose clusters it starts
  std::unique_ptr<cluster> spare_;   // fits `current_`
  busy_time::presence here_;
  int started_ = 0;        // clusters of `current_` in a row
  bool worked_ = false;    // since it last had nothing to do
  bool may_poll_ = false;  // it worked just before
  std::uint64_t seen_ = 0; // submissions before it last looked for work
};

} // namespace vgpu::device::cpu
