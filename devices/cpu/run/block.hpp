// A thread block: its warps, shared memory and barriers. One host thread at a
// time runs it.
#pragma once

#include "devices/cpu/lower/program.hpp"
#include "devices/cpu/memory/memory_map.hpp"
#include "devices/cpu/run/warp.hpp"
#include "devices/interface/device.hpp"
#include "devices/interface/governor.hpp"
#include "devices/interface/trace_unit.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace vgpu::device::cpu {

class cluster;
class heap;

/// Says where the session's conditions lie, which kernels set by handle. There
/// are none where `place` is 0.
struct condition_memory {
  device_address address = 0;
  device_address place = 0;
};

/// Holds the state that all blocks of one launch share. All threads that run
/// its blocks read it. Meanwhile only the atomics change.
struct grid {
  std::shared_ptr<const program> of;
  const code* entry = nullptr;
  dim3 blocks;
  dim3 threads;
  dim3 cluster;                  // in blocks; divides the grid
  bool explicit_cluster = false; // the launch or kernel asked for it
  std::uint64_t block_count = 1;
  std::uint32_t dynamic_shared = 0;
  std::vector<std::byte> parameters;
  const memory_map* memory = nullptr;
  cpu::heap* heap = nullptr; // for malloc, or null
  /// The bytes that a lane has for .local variables of the functions it calls.
  std::uint32_t stack_bytes = 16 << 10;
  condition_memory conditions;
  bool cooperative = false; // its blocks wait for each other
  /// The blocks of a cooperative launch synchronise through this workspace,
  /// whose address is in %envreg1 and %envreg2.
  std::shared_ptr<void> workspace_memory;
  device_address workspace() const noexcept {
    return reinterpret_cast<device_address>(workspace_memory.get());
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
  work_piece piece; // of a traced launch

  /// Makes all blocks of the grid stop soon when set.
  std::atomic<bool> cancelled = false;
  /// The governor that may interrupt the threads that run the grid, or null.
  const governor* governed_by = nullptr;
  bool hurried() const noexcept {
    return governed_by != nullptr && governed_by->hurries();
  }
  /// Counts the warp instructions of the blocks that have ended.
  mutable std::atomic<std::uint64_t> executed = 0;
};

/// Runs a thread block (CUDA C++ Programming Guide, "Thread Hierarchy").
class block {
public:
  /// Allocates host memory once; it serves block after block of the launch.
  block(const grid& of, unsigned processor, cluster& unit, unsigned rank);

  /// Starts the block with this index in the grid.
  void start(const dim3& index);

  /// Says how a call of run() ended.
  enum class state : std::uint8_t {
    going,  // its turn is over
    idle,   // as going, and its warps only waited for other blocks
    stuck,  // all its warps wait, for each other or the cluster
    done,   // all threads have exited
    failed, // error() and why() say how
  };
  /// Runs each warp for a few quanta.
  state run();
  /// Returns the time until which all its warps sleep. A time in the past says
  /// that some can run now, and max that all wait.
  warp::clock::time_point sleeps_until() const noexcept;
  /// Fails the block, because nothing will ever release its waiting warps.
  void fail_as_stuck();

  /// Adds the instructions that its warps executed to the grid's count.
  void count_executed();

  CUresult error() const noexcept { return error_; }
  const std::string& why() const noexcept { return why_; }

  // -- for warps --------------------------------------------------------------

  /// Holds the state of one barrier (PTX ISA, bar and barrier).
  struct barrier {
    std::uint32_t arrived = 0;
    std::uint32_t expected = 0;   // 0: all live threads
    std::uint32_t votes = 0;      // threads that voted true (bar.red)
    std::uint32_t result = 0;     // votes of the last completed phase
    std::uint32_t voters = 0;     // threads of the last completed phase
    std::uint32_t voters_now = 0; // threads that voted in this phase
  };

  const grid& in;
  const unsigned processor;          // %smid
  cpu::cluster& unit;                // the cluster that it belongs to
  const unsigned rank;               // %cluster_ctarank
  const dim3 in_cluster;             // %cluster_ctaid
  std::uint32_t reserved_shared = 0; // offset of the system's shared memory
  dim3 index;                        // %ctaid
  static constexpr unsigned own_barriers = 16;
  /// Lanes wait for the whole cluster under this number.
  static constexpr unsigned cluster_barrier = own_barriers;
  std::array<barrier, own_barriers> barriers{}; // with votes before arrivals
  std::uint32_t live = 0;                       // threads that have not exited

  /// Lets threads arrive at a barrier. When they are the last, all lanes that
  /// wait there continue. Returns whether the phase completed.
  bool arrive(unsigned which, std::uint32_t threads, std::uint32_t expected);
  /// Notes that threads exited; `at_cluster` of them had arrived at the
  /// cluster's barrier.
  void threads_exited(std::uint32_t count, std::uint32_t at_cluster);
  /// Lets the lanes that wait at the cluster's barrier continue.
  void cluster_met();
  /// Notes an error. Later errors are ignored.
  void fail(CUresult code, std::string why);

  /// In the window of shared memory a block finds its own memory at 0. It finds
  /// the memory of the cluster's block of rank r, itself included, at (r + 1)
  /// << rank_shift.
  static constexpr unsigned rank_shift = 24;
  static constexpr std::uint64_t in_rank = (1u << rank_shift) - 1;
  /// Returns the offset of the memory of the block with this rank. For a rank
  /// that does not exist nothing lies at that offset.
  std::uint64_t shared_of(std::uint32_t rank) const noexcept;
  /// Returns the rank of the block whose memory lies at this offset.
  std::uint32_t rank_of(std::uint64_t offset) const noexcept;
  /// Returns the offset of its own memory for other blocks. It is 0 without
  /// clusters.
  std::uint64_t own_shared() const noexcept { return own_shared_; }
  /// Returns the host memory of an offset in the window, or null.
  std::byte* shared_at(std::uint64_t offset, std::uint64_t bytes) const;

  /// Returns the host memory of a generic address of one lane, or null.
  std::byte* resolve(warp& w, unsigned lane, std::uint64_t address,
                     std::uint64_t bytes) const;

private:
  void complete(unsigned which);

  std::uint32_t waited_at_ = 0;     // barriers with waiting lanes, a bit each
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
