// A thread block: its warps, shared memory and barriers, run by one host
// thread at a time.
#pragma once

#include "devices/cpu/memory_map.hpp"
#include "devices/cpu/program.hpp"
#include "devices/cpu/warp.hpp"
#include "devices/device.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace vgpu::device::cpu {

class heap;

/// What all blocks of one launch share. Read by all threads that run its
/// blocks, and not changed while they do, except for the atomics.
struct grid {
  std::shared_ptr<const program> of;
  const code* entry = nullptr;
  dim3 blocks;
  dim3 threads;
  std::uint64_t block_count = 1;
  std::uint32_t dynamic_shared = 0;
  std::vector<std::byte> parameters;
  const memory_map* memory = nullptr;
  cpu::heap* heap = nullptr; // of malloc, or none
  bool cooperative = false;  // its blocks wait for one another
  /// What the blocks of a cooperative launch meet through; its address is in
  /// %envreg1 and %envreg2.
  static constexpr std::uint64_t workspace_bytes = 64;
  alignas(64) std::array<std::uint32_t, workspace_bytes / 4> meeting{};
  device_address workspace() const noexcept {
    return cooperative ? reinterpret_cast<device_address>(meeting.data()) : 0;
  }
  std::uint64_t number = 0; // %gridid
  unsigned processors = 1;  // %nsmid
  std::function<void(console, std::string_view)> print;

  /// Set to make all its blocks stop soon.
  std::atomic<bool> cancelled = false;
  /// Warp instructions executed by the blocks that have ended.
  mutable std::atomic<std::uint64_t> executed = 0;
};

class block {
public:
  /// Host memory is taken once and serves block after block of the launch.
  block(const grid& of, unsigned processor);

  /// Begins the block of that index in the grid (x fastest).
  void start(std::uint64_t index);

  enum class state : std::uint8_t {
    going,  // its slice is over
    idle,   // as going, but all that ran only waited for other blocks
    done,   // all threads have exited
    failed, // error() and why() say how
  };
  /// Runs each warp for a few quanta.
  state run();

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
  const unsigned processor;           // %smid
  std::uint32_t reserved_shared = 0;  // where the system's shared memory begins
  dim3 index;                         // %ctaid
  std::array<barrier, 17> barriers{}; // the last is the lowering's own
  std::uint32_t live = 0;             // threads that have not exited

  /// Threads arrive; when they are the last, everybody waiting goes on.
  /// Returns whether the phase completed.
  bool arrive(unsigned which, std::uint32_t threads, std::uint32_t expected);
  void threads_exited(std::uint32_t count);
  void fail(CUresult code, std::string why);

  /// Host memory behind a generic address as one lane sees it, or null.
  std::byte* resolve(warp& w, unsigned lane, std::uint64_t address,
                     std::uint64_t bytes) const;

private:
  void complete(unsigned which);

  std::vector<std::byte> shared_storage_;
  std::byte* shared_ = nullptr;
  std::uint64_t shared_bytes_ = 0;
  std::vector<std::unique_ptr<warp>> warps_;
  unsigned next_warp_ = 0;
  CUresult error_ = CUDA_SUCCESS;
  std::string why_;
};

} // namespace vgpu::device::cpu
