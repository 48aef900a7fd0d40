// A warp: 32 threads that execute together, with registers, active lanes, and
// the groups into which the lanes split when they diverge.
#pragma once

#include "devices/cpu/lower/program.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu::device::cpu {

class block;

/// Holds the registers and call parameters of one activation of a function, for
/// the lanes that made the call together.
struct frame {
  const code* of = nullptr;
  frame* caller = nullptr;
  const instr* back = nullptr;     // where the caller continues
  const call_site* site = nullptr; // the site that receives the results
  lane_mask inside = 0;            // lanes that have not returned
  std::uint32_t depth = 0;
  std::uint32_t local_base = 0; // of .local variables, in a lane's memory
  std::uint32_t dynamic = 0;    // bytes of alloca behind them
  std::byte* regs = nullptr;    // 64-byte aligned
  std::byte* params = nullptr;
  std::unique_ptr<std::byte[]> memory;
};

/// Holds lanes of a warp that are at the same place.
struct group {
  /// Says what a group waits for.
  enum class state : std::uint8_t {
    ready,
    sync,    // waits for other lanes of its warp, at `at`
    barrier, // waits at the barrier `barrier` of its block or cluster
  };
  const instr* at = nullptr;
  frame* in = nullptr;
  lane_mask mask = 0;
  state is = state::ready;
  std::uint8_t barrier = 0;
  std::uint32_t age = 0; // how often others were preferred
};

/// Says why a handler stopped the warp.
enum class stop : std::uint8_t {
  none,
  quantum, // its quantum is over; it can continue
  waiting, // all its lanes wait at barriers
  done,    // all its lanes have exited
  failed,  // the block's fault is set
};

/// Executes lanes in groups. Of the groups that are ready, the one deepest in
/// calls runs, and among those the one at the lowest instruction; groups that
/// meet at one instruction merge. Compilers lay code out in the order of
/// control flow, so this reconverges after branches and loops. A group that was
/// passed over too often, because its neighbours spin on a lock that it holds,
/// gets a turn of its own. So every lane makes progress.
class warp {
public:
  warp(block& of, unsigned index);

  /// Starts over for a new block, with all its lanes at the kernel's beginning.
  void reset(const code& entry, lane_mask threads);

  /// Runs until the warp must wait, has exited or failed, or has used up its
  /// budget of backward branches.
  stop run();

  /// Tells whether some lanes can run.
  bool runnable() const noexcept { return runnable_; }

  /// Sleeping lanes are timed by this clock.
  using clock = std::chrono::steady_clock;
  /// Returns the time until which all lanes sleep. A time in the past says that
  /// some can run now.
  clock::time_point sleeps_until() const noexcept { return sleeps_until_; }
  /// Tells whether all lanes sleep now.
  bool sleeps() const noexcept {
    return sleeps_until_ != clock::time_point{} && clock::now() < sleeps_until_;
  }

  /// Tells whether the last run() only polled memory that other threads may
  /// change, or ended in a sleep.
  bool waited() const noexcept {
    return why == stop::quantum &&
           (watched_ >= many_looks || sleeps_until_ != clock::time_point{});
  }

  // -- for handlers -----------------------------------------------------------

  std::byte* regs = nullptr; // registers of the running frame
  lane_mask mask = 0;        // running lanes
  lane_mask saved = 0;       // running lanes outside of a guard
  lane_mask carry = 0;       // the condition code of add.cc and the like
  std::int32_t budget = 0;   // backward branches left in the quantum
  std::byte* shared = nullptr;
  std::uint64_t shared_bytes = 0;
  std::byte* local = nullptr;    // lane after lane
  std::uint64_t local_bytes = 0; // per lane
  block& blk;
  const unsigned index; // index in its block
  std::array<std::uint32_t, lanes> tid[3];
  lane_mask live = 0;         // lanes that have not exited
  lane_mask at_cluster = 0;   // lanes that arrived at the cluster's barrier
  std::uint64_t executed = 0; // instructions, by the warp
  stop why = stop::none;
  /// Holds where instructions last read consecutive memory. Two instructions of
  /// a kernel may share an entry.
  std::array<std::uint64_t, 16> last_read{};

  /// Returns the running group's frame.
  frame* in_frame() const noexcept { return in_; }

  /// Continues the running group at `at`. Returns where the warp continues,
  /// which is elsewhere when another group comes first.
  const instr* arrive(const instr* at) {
    if (waiting_ == 0) [[likely]]
      return at;
    return reschedule(at);
  }

  /// Continues the running group at `at` after a backward jump, which counts
  /// against the quantum. Returns where the warp continues.
  const instr* arrive_back(const instr* at) {
    if (--budget < 0) [[unlikely]]
      return preempt(at);
    return arrive(at);
  }

  /// Ends the quantum; the running group continues at `at` later.
  const instr* preempt(const instr* at);

  /// Ends the quantum. Where no other lanes are ready, the warp need not run
  /// for this long (PTX ISA, nanosleep: at most 1 ms, and the device may choose
  /// less).
  const instr* sleep(std::chrono::nanoseconds time, const instr* at);

  /// Splits the running group: `taken` continue at `to`, and the rest at
  /// `next`.
  const instr* diverge(lane_mask taken, const instr* to, const instr* next);

  /// Leaves some running lanes at `at` for later; the others continue.
  void leave_behind(lane_mask some, const instr* at);

  /// Ends the running lanes.
  const instr* exit_lanes();

  /// Gathers all lanes of `members` for an instruction at `at` that needs them.
  /// Returns true when they are here, and the instruction may run. Otherwise it
  /// parks the group, and `next` is where the warp continues.
  bool gather(const std::uint32_t* members, const instr* at,
              const instr*& next);

  /// Lets the running lanes wait at a barrier of the block and then continue at
  /// `next`.
  const instr* wait_at_barrier(unsigned barrier, std::uint32_t threads,
                               std::uint32_t expected, const instr* next);
  /// Lets the running lanes wait until the cluster's barrier is complete,
  /// unless it was completed since they arrived there.
  const instr* wait_for_cluster(const instr* next);
  /// Lets lanes that wait at a barrier continue.
  void release(unsigned barrier);

  /// Calls a function for the running lanes, which return to `back`.
  const instr* call(const code& callee, const call_site& site,
                    const instr* back);
  /// Returns from a function for the running lanes.
  const instr* give_back(const instr* at);

  /// Ends the block with an error. Always returns null.
  const instr* fail(int code, const instr* at, const char* what);

  /// Returns 8 KiB of memory for an instruction's own use.
  std::byte* scratch() {
    if (!scratch_)
      scratch_ = std::make_unique<std::uint64_t[]>(1024);
    return reinterpret_cast<std::byte*>(scratch_.get());
  }

  /// Notes, as a hint, that the running lanes may be waiting for another warp.
  void may_spin() noexcept {
    budget -= 32;
    ++watched_;
    if (waiting_ != 0)
      spin_ += 32;
  }

private:
  const instr* reschedule(const instr* at);
  const instr* pick();
  const instr* enter(unsigned index);
  void park(const instr* at, group::state is, unsigned barrier = 0);
  frame* make_frame(const code& of);
  void drop_frame(frame* x);

  std::array<group, lanes + 1> groups_; // those that are not running
  unsigned waiting_ = 0;                // their number
  frame* in_ = nullptr;
  std::uint32_t spin_ = 0;
  std::uint32_t fair_left_ = 0;
  bool runnable_ = false;
  bool lonely_ = false; // continue without the missing lanes
  static constexpr std::uint32_t many_looks = 32;
  std::uint32_t watched_ = 0; // hints in the last run()
  clock::time_point sleeps_until_;
  std::vector<std::unique_ptr<frame>> frames_;
  std::vector<frame*> free_frames_;
  std::size_t frame_bytes_ = 0;
  std::unique_ptr<std::byte[]> local_memory_;
  std::unique_ptr<std::uint64_t[]> scratch_;
};

} // namespace vgpu::device::cpu
