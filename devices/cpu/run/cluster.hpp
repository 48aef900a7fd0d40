// The blocks of a cluster, which reach each other's shared memory.
#pragma once

#include "devices/cpu/run/block.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vgpu::device::cpu {

/// What a host thread runs: one cluster of blocks, which is one block where the
/// launch has no clusters. One host thread at a time runs all of them in turn:
/// so they are there together and get on together, and neither their shared
/// memory nor their barrier needs atomics. Blocks that have ended keep their
/// memory until the cluster has, but nobody may touch it any more.
class cluster {
public:
  /// Host memory is taken once and serves cluster after cluster of the launch.
  cluster(const grid& of, unsigned processor);

  /// Begins the cluster of that index in the grid (x fastest).
  void start(std::uint64_t number);

  /// Runs each warp of each block for a few quanta.
  block::state run();

  /// The time before which none of its warps can go on; in the past: some can.
  warp::clock::time_point sleeps_until() const noexcept;

  /// Adds what its warps executed to the grid's count.
  void count_executed();

  CUresult error() const noexcept { return failed_->error(); }
  const std::string& why() const noexcept { return failed_->why(); }

  // -- for warps --------------------------------------------------------------

  dim3 index; // %clusterid

  unsigned size() const noexcept {
    return 1 + static_cast<unsigned>(others_.size());
  }
  /// The block of that rank, as long as it runs, or null.
  const block* running(std::uint64_t rank) const noexcept;

  /// The warp's running lanes arrive at the barrier (barrier.cluster.arrive).
  void arrive(warp& w);
  /// Threads are gone, of which some had arrived.
  void threads_exited(std::uint32_t count, std::uint32_t had_arrived);

private:
  template <class F>
  void each(F f) {
    f(first_);
    for (auto& b : others_)
      f(*b);
  }
  block::state run_all();
  void complete();

  block first_;
  std::vector<std::unique_ptr<block>> others_;
  const block* failed_ = &first_;
  std::uint32_t live_ = 0;    // threads that have not exited
  std::uint32_t arrived_ = 0; // of them, at the barrier
};

} // namespace vgpu::device::cpu
