// 32 threads that execute together: registers, active lanes, and the groups
// into which they split when they diverge.
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

/// The registers and call parameters of one activation of a function, for
/// those lanes that made the call together.
struct frame {
  const code* of = nullptr;
  frame* caller = nullptr;
  const instr* back = nullptr;     // where the caller goes on
  const call_site* site = nullptr; // whose results it takes
  lane_mask inside = 0;            // lanes that have not returned
  std::uint32_t depth = 0;
  std::uint32_t local_base = 0; // of .local variables, in a lane's memory
  std::uint32_t dynamic = 0;    // bytes of alloca behind them
  std::byte* regs = nullptr;    // 64-byte aligned
  std::byte* params = nullptr;
  std::unique_ptr<std::byte[]> memory;
};

/// Lanes of a warp at one place.
struct group {
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

/// Why a handler gave the warp up.
enum class stop : std::uint8_t {
  none,
  quantum, // its time is over; it can go on
  waiting, // all its lanes wait at barriers
  done,    // all its lanes have exited
  failed,  // the block's fault is set
};

/// Scheduling of lanes: of the groups that are ready, the one deepest in calls
/// runs, and of those the one at the lowest instruction; groups that meet at
/// one instruction become one. As compilers lay code out in the order in which
/// control flows, this reconverges after branches and loops. A group that was
/// passed over too often (its neighbours spin on a lock that it holds) gets a
/// turn of its own, so that every lane makes progress.
class warp {
public:
  warp(block& of, unsigned index);

  /// Starts over for a new block: all its lanes at the kernel's beginning.
  void reset(const code& entry, lane_mask threads);

  /// Runs until the warp must wait, has exited, failed, or used up its budget
  /// of backward branches.
  stop run();

  bool runnable() const noexcept { return runnable_; }

  /// Until when none of its lanes has anything to do; in the past: now.
  using clock = std::chrono::steady_clock;
  clock::time_point sleeps_until() const noexcept { return sleeps_until_; }
  bool sleeps() const noexcept {
    return sleeps_until_ != clock::time_point{} && clock::now() < sleeps_until_;
  }

  /// Whether the last run() was spent on looking at what others may change, or
  /// ended in a sleep.
  bool waited() const noexcept {
    return why == stop::quantum &&
           (watched_ >= many_looks || sleeps_until_ != clock::time_point{});
  }

  // -- for handlers -----------------------------------------------------------

  std::byte* regs = nullptr; // of the running group's frame
  lane_mask mask = 0;        // running lanes
  lane_mask saved = 0;       // running lanes outside a guard
  lane_mask carry = 0;       // the condition code of add.cc and its kin
  std::int32_t budget = 0;   // backward branches until the quantum is over
  std::byte* shared = nullptr;
  std::uint64_t shared_bytes = 0;
  std::byte* local = nullptr;    // lane after lane
  std::uint64_t local_bytes = 0; // per lane
  block& blk;
  const unsigned index; // in its block
  std::array<std::uint32_t, lanes> tid[3];
  lane_mask live = 0;         // lanes that have not exited
  lane_mask at_cluster = 0;   // lanes that arrived at the cluster's barrier
  std::uint64_t executed = 0; // instructions, by the warp
  stop why = stop::none;
  /// Where instructions read consecutive memory the last time; two of one
  /// kernel may share an entry.
  std::array<std::uint64_t, 16> last_read{};

  frame* in_frame() const noexcept { return in_; }

  /// The running group goes on at `at`; returns where the warp goes on, which
  /// is elsewhere when another group comes first.
  const instr* arrive(const instr* at) {
    if (waiting_ == 0) [[likely]]
      return at;
    return reschedule(at);
  }

  /// As arrive, for a jump backwards: counts against the quantum.
  const instr* arrive_back(const instr* at) {
    if (--budget < 0) [[unlikely]]
      return preempt(at);
    return arrive(at);
  }

  const instr* preempt(const instr* at);

  /// As preempt, and where no other lanes are ready the warp need not run for
  /// that long (PTX ISA, nanosleep: 1 ms at most, and as short as one likes).
  const instr* sleep(std::chrono::nanoseconds time, const instr* at);

  /// Splits the running group: `taken` go on at `to`, the rest at `next`.
  const instr* diverge(lane_mask taken, const instr* to, const instr* next);

  /// Some running lanes stay at `at` for later, the others run on.
  void leave_behind(lane_mask some, const instr* at);

  /// The running lanes are done.
  const instr* exit_lanes();

  /// Called by an instruction at `at` that needs all lanes of `members`
  /// together. True when they are (the instruction may run); otherwise the
  /// group is parked, and `next` is where to go on.
  bool together(const std::uint32_t* members, const instr* at,
                const instr*& next);

  /// The running lanes wait at a barrier of the block and go on at `next`.
  const instr* wait_at_barrier(unsigned barrier, std::uint32_t threads,
                               std::uint32_t expected, const instr* next);
  /// The running lanes wait until the cluster's barrier is met, unless it was
  /// since they arrived there.
  const instr* wait_for_cluster(const instr* next);
  /// Lets lanes that wait at a barrier go on.
  void release(unsigned barrier);

  const instr* call(const code& callee, const call_site& site,
                    const instr* back);
  const instr* give_back(const instr* at);

  /// Ends the block with an error; always null.
  const instr* fail(int code, const instr* at, const char* what);

  /// 8 KiB for an instruction's own use.
  std::byte* scratch() {
    if (!scratch_)
      scratch_ = std::make_unique<std::uint64_t[]>(1024);
    return reinterpret_cast<std::byte*>(scratch_.get());
  }

  /// A hint that the running lanes may be waiting for somebody.
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
  unsigned waiting_ = 0;                // how many
  frame* in_ = nullptr;
  std::uint32_t spin_ = 0;
  std::uint32_t fair_left_ = 0;
  bool runnable_ = false;
  bool lonely_ = false; // go on without the missing lanes
  static constexpr std::uint32_t many_looks = 32;
  std::uint32_t watched_ = 0; // hints of the last run()
  clock::time_point sleeps_until_;
  std::vector<std::unique_ptr<frame>> frames_;
  std::vector<frame*> free_frames_;
  std::size_t frame_bytes_ = 0;
  std::unique_ptr<std::byte[]> local_memory_;
  std::unique_ptr<std::uint64_t[]> scratch_;
};

} // namespace vgpu::device::cpu
