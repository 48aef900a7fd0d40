// A cluster of blocks, which can access each other's shared memory.
#pragma once

#include "devices/cpu/run/block.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vgpu::device::cpu {

/// Runs one cluster of blocks, which is one block where the launch has no
/// clusters. A cluster is the unit that a host thread runs. One host thread at
/// a time runs all its blocks in turn, so they make progress together, and
/// neither their shared memory nor their barrier needs atomics. A block that
/// has ended keeps its memory until the cluster ends, but no other block may
/// access it.
class cluster {
public:
  /// Allocates host memory once; it serves cluster after cluster of the launch.
  cluster(const grid& of, unsigned processor);

  /// Starts the cluster with this index in the grid (x fastest).
  void start(std::uint64_t number);

  /// Runs each warp of each block for a few quanta.
  block::state run();

  /// Returns the time until which all its warps sleep. A time in the past says
  /// that some can run now.
  warp::clock::time_point sleeps_until() const noexcept;

  /// Adds the instructions that its warps executed to the grid's count.
  void count_executed();

  CUresult error() const noexcept { return failed_->error(); }
  const std::string& why() const noexcept { return failed_->why(); }

  // -- for warps --------------------------------------------------------------

  dim3 index; // %clusterid

  /// Returns the number of its blocks.
  unsigned size() const noexcept {
    return 1 + static_cast<unsigned>(others_.size());
  }
  /// Returns the block of this rank while it runs, or null.
  const block* running(std::uint64_t rank) const noexcept;

  /// Lets the warp's running lanes arrive at the cluster's barrier (PTX ISA,
  /// barrier.cluster.arrive).
  void arrive(warp& w);
  /// Notes that threads exited; `had_arrived` of them had arrived at the
  /// barrier.
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
  std::uint32_t arrived_ = 0; // those of them at the barrier
};

} // namespace vgpu::device::cpu
