// The host threads that execute the blocks of grids.
#pragma once

#include "devices/cpu/run/busy_time.hpp"
#include "devices/cpu/run/cluster.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vgpu::device::cpu {

/// Owns a pool of threads, each of which is a "multiprocessor". A thread holds
/// several clusters (mostly of one block) and runs each for a slice in turn. So
/// blocks that wait for each other through memory all make progress, and grids
/// of different streams share the pool. The threads run at a lower priority
/// than the rest of the process, and only while the governor lets them.
class engine {
public:
  /// Starts the threads. `busy` measures the threads that have blocks and says
  /// which may run; it outlives the engine.
  engine(unsigned threads, busy_time& busy);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  /// Abandons grids that are not done: their `finished` is not called.
  ~engine() { stop(); }
  void stop();

  /// A thread of the pool calls this once, with the first error of a block.
  using finished = std::function<void(CUresult, const std::string&)>;

  /// Executes a grid and then calls `done`.
  void submit(std::shared_ptr<grid> what, finished done);

  /// Makes all grids end soon, with an error.
  void cancel_all();

  /// Stops executing for good.
  void freeze();

  unsigned threads() const noexcept { return thread_count_; }

private:
  struct running;
  class pool_thread;

  void wake_all();
  std::shared_ptr<running> choose(const running* but_rather_not);
  void cluster_ended(const std::shared_ptr<running>& of, const cluster& b);
  void cancel(running& x);
  void retire(const std::shared_ptr<running>& x, std::uint64_t clusters);
  bool paused() const noexcept {
    return stopping_.load(std::memory_order_relaxed) ||
           frozen_.load(std::memory_order_relaxed);
  }

  busy_time& busy_;
  unsigned thread_count_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable rested_; // those that may begin without asking
  unsigned resting_ = 0;
  unsigned without_work_ = 0;                   // and do not look out for any
  unsigned looking_out_ = 0;                    // for work not submitted yet
  std::vector<std::shared_ptr<running>> grids_; // with clusters to start or end
  std::size_t turn_ = 0;
  std::atomic<std::uint64_t> submitted_ = 0; // grids, in total
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> frozen_ = false;
  std::vector<std::thread> threads_;
};

} // namespace vgpu::device::cpu
