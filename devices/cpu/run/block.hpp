// A thread block: its warps, shared memory and barriers, run by one host
// thread at a time.
#pragma once

#include "devices/cpu/lower/program.hpp"
#include "devices/cpu/memory/memory_map.hpp"
#include "devices/cpu/run/warp.hpp"
#include "devices/interface/device.hpp"
#include "devices/interface/governor.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace vgpu::device::cpu {

class cluster;
class heap;

/// Words that kernels set by handles; none where `place` is 0.
struct condition_memory {
  device_address address = 0;
  device_address place = 0;
};

/// What all blocks of one launch share. Read by all threads that run its
/// blocks, and not changed while they do, except for the atomics.
struct grid {
  std::shared_ptr<const program> of;
  const code* entry = nullptr;
  dim3 blocks;
  dim3 threads;
  dim3 cluster;                  // in blocks; the grid is a multiple of it
  bool explicit_cluster = false; // and somebody asked for it
  std::uint64_t block_count = 1;
  std::uint32_t dynamic_shared = 0;
  std::vector<std::byte> parameters;
  const memory_map* memory = nullptr;
  cpu::heap* heap = nullptr; // of malloc, or none
  condition_memory conditions;
  bool cooperative = false; // its blocks wait for one another
  /// What the blocks of a cooperative launch meet through; its address is in
  /// %envreg1 and %envreg2.
  static constexpr std::uint64_t workspace_bytes = 64;
  alignas(64) std::array<std::uint32_t, workspace_bytes / 4> meeting{};
  device_address workspace() const noexcept {
    return cooperative ? reinterpret_cast<device_address>(meeting.data()) : 0;
  }
  unsigned cluster_blocks() const noexcept {
    return cluster.x * cluster.y * cluster.z;
  }
  std::uint64_t clusters() const noexcept {
    return block_count / cluster_blocks();
  }
  std::uint64_t number = 0; // %gridid
  unsigned processors = 1;  // %nsmid
  std::function<void(console, std::string_view)> print;

  /// Set to make all its blocks stop soon.
  std::atomic<bool> cancelled = false;
  /// Who may want its threads to look up from their work; null: nobody.
  const governor* governed_by = nullptr;
  bool hurried() const noexcept {
    return governed_by != nullptr && governed_by->hurries();
  }
  /// Warp instructions executed by the blocks that have ended.
  mutable std::atomic<std::uint64_t> executed = 0;
};

class block {
public:
  /// Host memory is taken once and serves block after block of the launch.
  block(const grid& of, unsigned processor, cluster& unit, unsigned rank);

  /// Begins the block of that index in the grid.
  void start(const dim3& index);

  enum class state : std::uint8_t {
    going,  // its slice is over
    idle,   // as going, but all that ran only waited for other blocks
    stuck,  // all its warps wait, for each other or for the cluster
    done,   // all threads have exited
    failed, // error() and why() say how
  };
  /// Runs each warp for a few quanta.
  state run();
  /// The time before which none of its warps can go on; in the past: some can,
  /// max: all wait.
  warp::clock::time_point sleeps_until() const noexcept;
  /// Nobody will let its warps go on.
  void fail_as_stuck();

  /// Adds what its warps executed to the grid's count.
  void count_executed();

  CUresult error() const noexcept { return error_; }
  const std::string& why() const noexcept { return why_; }

  // -- for warps --------------------------------------------------------------

  struct barrier {
    std::uint32_t arrived = 0;
    std::uint32_t expected = 0;   // 0: all live threads
    std::uint32_t votes = 0;      // threads that voted true (bar.red)
    std::uint32_t result = 0;     // votes of the last completed phase
    std::uint32_t voters = 0;     // threads of the last completed phase
    std::uint32_t voters_now = 0; // threads that voted in this one
  };

  const grid& in;
  const unsigned processor;          // %smid
  cpu::cluster& unit;                // it is a part of
  const unsigned rank;               // %cluster_ctarank
  const dim3 in_cluster;             // %cluster_ctaid
  std::uint32_t reserved_shared = 0; // where the system's shared memory begins
  dim3 index;                        // %ctaid
  static constexpr unsigned own_barriers = 16;
  /// The number under which lanes wait for the whole cluster.
  static constexpr unsigned cluster_barrier = own_barriers;
  std::array<barrier, own_barriers> barriers{}; // votes before they arrive
  std::uint32_t live = 0;                       // threads that have not exited

  /// Threads arrive; when they are the last, everybody waiting goes on.
  /// Returns whether the phase completed.
  bool arrive(unsigned which, std::uint32_t threads, std::uint32_t expected);
  void threads_exited(std::uint32_t count, std::uint32_t at_cluster);
  /// The cluster's barrier is met: its lanes go on.
  void cluster_met();
  void fail(CUresult code, std::string why);

  /// In the window of shared memory, a block sees its own at 0, and that of the
  /// cluster's block of rank r, its own too, at (r + 1) << rank_shift.
  static constexpr unsigned rank_shift = 24;
  static constexpr std::uint64_t in_rank = (1u << rank_shift) - 1;
  /// Where the block of that rank is seen; where nothing is if there is none.
  std::uint64_t shared_of(std::uint32_t rank) const noexcept;
  /// Which block sees its own memory at that offset.
  std::uint32_t rank_of(std::uint64_t offset) const noexcept;
  /// What others are told of its own memory: without clusters that is plain.
  std::uint64_t own_shared() const noexcept { return own_shared_; }
  /// Host memory behind an offset in the window, or null.
  std::byte* shared_at(std::uint64_t offset, std::uint64_t bytes) const;

  /// Host memory behind a generic address as one lane sees it, or null.
  std::byte* resolve(warp& w, unsigned lane, std::uint64_t address,
                     std::uint64_t bytes) const;

private:
  void complete(unsigned which);

  std::uint32_t waited_at_ = 0;     // barriers, a bit each
  bool barriers_were_used_ = false; // since they were cleared
  std::vector<std::byte> shared_storage_;
  std::byte* shared_ = nullptr;
  std::uint64_t shared_bytes_ = 0;
  std::uint64_t own_shared_ = 0;
  std::vector<std::unique_ptr<warp>> warps_;
  unsigned next_warp_ = 0;
  CUresult error_ = CUDA_SUCCESS;
  std::string why_;
};

} // namespace vgpu::device::cpu
