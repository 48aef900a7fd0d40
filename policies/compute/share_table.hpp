// The sessions of a pGPU, as all processes that share it see them: plain data
// without addresses, which may lie in shared memory
// (actors/compute/share_board.hpp). Each engine has its part, which no other
// engine can change.
#pragma once

#include "policies/compute/share_policies.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <type_traits>

namespace vgpu::policy {

/// Holds nanoseconds: a time of the monotonic clock, or a duration.
using share_ns = std::int64_t;

/// Bounds every time and number that was read from memory of others, so that
/// sums and small multiples of them do not overflow. Nothing honest reaches it:
/// it is nine years, in ns.
inline constexpr share_ns farthest = share_ns{1} << 58;
inline void repair(share_ns& x) noexcept {
  x = std::clamp(x, -farthest, farthest);
}
inline void repair(double& x) noexcept {
  constexpr auto most = static_cast<double>(farthest);
  // Also true for what is no number.
  if (!(x >= -most && x <= most))
    x = 0;
}
/// Limits the threads of a session that wait or run. Letting threads in takes a
/// step for each, while all others wait for the table.
inline constexpr std::uint32_t most_threads = 4096;
template <class... T>
void repair_counts(T&... x) noexcept {
  ((x = std::min<std::uint32_t>(x, most_threads)), ...);
}
template <class... T>
void repair_all(T&... x) noexcept {
  (repair(x), ...);
}

struct share_rules {
  share_policy policy = share_policy::guarantee;
  /// Holds the length of a turn while another session waits. Sessions with
  /// threads may be ahead or behind by a part of it.
  share_ns quantum = 20'000'000;
  /// Is 0 for a device that one session at a time has, for a turn. Otherwise
  /// the device consists of threads on this many processors of its host. They
  /// work for several sessions at once, and are admitted one by one.
  std::uint32_t processors = 0;
  /// Tells whether sessions may run without turns while that is a gain
  /// (concurrent_engine.hpp). 0: never.
  std::uint32_t joins = 1;
  /// A session that got nothing for this long is starved, and goes before
  /// sessions of higher rank.
  share_ns starved_after = 1'000'000'000;
  /// A turn whose work is done is taken back when no more work comes for this
  /// long.
  share_ns idle_after = 1'000'000;
  /// A turn that was given to a waiting session is taken back when it is unused
  /// for this long. The session has work, but a busy host may wake it late. If
  /// its turn were taken back sooner, it would lose its share to sessions that
  /// wake up faster.
  share_ns unused_after = 250'000'000;
  /// A turn whose work does not end is taken back after this. The work may
  /// never end, or may wait for what only the next turn can do (kernels of one
  /// program on two devices that wait for each other).
  share_ns stalled_after = 2'000'000'000;

  /// Bounds what others wrote, but for the policy.
  void repair_numbers() noexcept {
    constexpr std::uint32_t most_processors = 65'536;
    processors = std::min(processors, most_processors);
    for (auto* x :
         {&quantum, &starved_after, &idle_after, &unused_after, &stalled_after})
      *x = std::clamp<share_ns>(*x, 1, farthest);
  }
};

/// Holds a seat's data for turns. Only the turn engine changes it.
class turn_seat {
  friend class turn_engine;

public:
  void repair_numbers() noexcept { repair(wants_since_); }

private:
  /// Tells whether the session had work at hand when the device last fell idle.
  std::uint32_t more_ = 0;
  /// Says when the session began to wait for a turn.
  share_ns wants_since_ = 0;
};

/// Holds a seat's data for running concurrently. Only the concurrent engine
/// changes it.
class concurrent_seat {
  friend class concurrent_engine;

public:
  /// Returns how long its turns took since the last round of turns began, in
  /// ns.
  double turns_took() const { return turns_took_; }
  void repair_numbers() noexcept {
    repair_all(predicted_, took_, awaited_, turns_took_, turns_held_);
  }

private:
  /// Holds the predicted time, in ns, for which the seat's latest work has its
  /// place in the device when it runs alone.
  double predicted_ = 0;
  /// Holds the time, in ns, for which the same work had its place.
  double took_ = 0;
  /// Holds the time, in ns, for which the host waited for the device meanwhile.
  double awaited_ = 0;
  /// Tells whether its next work uses engines that kernels do not use.
  std::uint32_t copies_ = 0;
  double turns_took_ = 0;
  /// Holds the part of turns_took(), in ns, for which its work had a place.
  double turns_held_ = 0;
};

/// Holds a seat's data for threads. Only the thread engine changes it.
class thread_seat {
  friend class thread_engine;

public:
  /// Returns the number of threads that have work and may run.
  std::uint32_t running() const { return running_; }
  /// Returns the number of threads that have work and wait.
  std::uint32_t waiting() const { return waiting_; }
  void repair_numbers() noexcept {
    repair(waits_since_);
    repair_counts(running_, waiting_);
  }

private:
  std::uint32_t running_ = 0;
  std::uint32_t waiting_ = 0;
  /// Tells whether the session is above its share, and yields to others.
  std::uint32_t held_ = 0;
  /// Says since when no thread of the session runs although some wait.
  share_ns waits_since_ = 0;
  /// Holds the device time up to which a starved session goes first.
  std::uint64_t favoured_ = 0;
};

/// Describes one session's place at a pGPU.
struct share_seat {
  share_claim claim{};
  /// Tells whether a session has this seat.
  std::uint32_t taken = 0;
  /// Holds the session's part of all weights, whose sum is at most 1.
  double weight = 0;
  /// Holds the device time divided by the weight, in ns.
  double virtual_time = 0;
  /// Holds the device time that is left under the session's limit, in ns.
  double credit = 0;
  /// Says at which time `credit` was right.
  share_ns credited_at = 0;
  /// Tells whether the credit was used up and is still too small to begin.
  std::uint32_t spent = 0;
  /// Tells whether the session has work in the device.
  std::uint32_t working = 0;
  /// Says when the session's work last began, continued or ended.
  share_ns heard_at = 0;
  /// Holds the device time that the session used since it took the seat, in ns.
  std::uint64_t used = 0;
  /// Counts the session's turns, or its woken threads.
  std::uint64_t turns = 0;
  /// Tells whether the session has work that waits for a turn.
  std::uint32_t wants = 0;
  /// Tells whether the session was admitted without a turn and has not brought
  /// its work yet. With threads, counts those that were admitted and have not
  /// called is_let_in() yet.
  std::uint32_t let_in = 0;
  /// Holds the predicted time, in ns, for which the device will work on the
  /// session's work that is in it.
  double brought = 0;

  turn_seat turn{};
  concurrent_seat concurrent{};
  thread_seat threads{};

  /// Bounds what others wrote.
  void repair_numbers() noexcept {
    repair_all(weight, virtual_time, credit, credited_at, heard_at, brought);
    repair_all(claim.share, claim.limit);
    repair_counts(let_in);
    turn.repair_numbers();
    concurrent.repair_numbers();
    threads.repair_numbers();
  }
};

inline constexpr std::size_t most_seats = 128;
using seat_set = std::bitset<most_seats>;

/// Means no seat.
inline constexpr std::int32_t no_seat = -1;

/// Says whose turn it is. Only the turn engine changes it.
class turn_state {
  friend class turn_engine;

public:
  /// Returns the seat that has the turn, or no_seat.
  std::int32_t holder() const { return holder_; }
  /// Returns the number of seats that wait for a turn.
  std::uint32_t waiting() const { return waiting_; }
  /// Returns when the holder's turn ends.
  share_ns until() const { return until_; }
  /// Returns whether the holder has brought no work yet.
  bool is_fresh() const { return idle_since_ == began_; }
  /// Forgets seats that do not exist, and bounds what others wrote.
  void repair_numbers() noexcept {
    for (auto* x : {&holder_, &had_turn_})
      if (*x < no_seat || *x >= static_cast<std::int32_t>(most_seats))
        *x = no_seat;
    repair_all(began_, until_, idle_since_);
  }
  /// Returns how long recent turns lasted.
  share_ns lately() const { return share_ns{lately_us_} * 1000; }

private:
  std::int32_t holder_ = no_seat;
  std::uint32_t waiting_ = 0;
  std::uint32_t lately_us_ = 0;
  /// Names the seat that had the last turn.
  std::int32_t had_turn_ = no_seat;
  /// Says when the last turn began. 0: there was none.
  share_ns began_ = 0;
  share_ns until_ = 0;
  /// Says since when the holder has no work in the device. 0: it has some.
  share_ns idle_since_ = 0;
};

/// Says whether sessions run concurrently, and what that gains. Only the
/// concurrent engine changes it.
class concurrent_state {
  friend class concurrent_engine;

public:
  /// Returns whether sessions run concurrently: each brings work at any time.
  bool is_on() const { return on_ != 0; }
  /// Returns whether sessions returned to turns, but the device still has work
  /// that they brought concurrently.
  bool drains() const { return draining_ != 0; }
  /// Returns how often sessions returned to turns.
  std::uint32_t partings() const { return partings_; }
  /// Returns the number of turns since they last returned to turns.
  std::uint32_t turns_since() const { return turns_since_; }
  void repair_numbers() noexcept {
    repair_all(tried_at_, try_after_, refresh_after_, since_, progress_,
               worked_, usual_load_);
  }

private:
  std::uint32_t on_ = 0;
  std::uint32_t draining_ = 0;
  std::uint32_t turns_since_ = 0;
  std::uint32_t partings_ = 0;
  /// Says when sessions last began to run concurrently.
  share_ns tried_at_ = 0;
  /// Holds the delay from tried_at_ to the next trial.
  share_ns try_after_ = 0;
  /// Holds the delay from tried_at_ to the next turns, which measure what work
  /// takes alone.
  share_ns refresh_after_ = 0;
  /// Says when the present measurement began.
  share_ns since_ = 0;
  /// Holds the time, in ns, that all work done since then takes alone.
  double progress_ = 0;
  /// Holds the time, in ns, for which the device works on that.
  double worked_ = 0;
  /// Holds the device's load in the first measurement.
  double usual_load_ = 0;
  /// Tells whether the device was idle for much of the last measurement.
  std::uint32_t slack_ = 0;
};

/// Counts the threads of all seats. Only the thread engine changes it.
class thread_state {
  friend class thread_engine;

public:
  /// Returns the number of running threads.
  std::uint32_t running() const { return running_; }
  /// Returns the seats with threads that run or wait.
  const seat_set& busy() const { return busy_; }

private:
  std::uint32_t running_ = 0;
  seat_set busy_{};
};

/// Holds a pGPU's seats and the engines' data about them. Not thread-safe:
/// callers must ensure that only one of them uses a table at a time. They pass
/// the present time.
struct share_table {
  static constexpr std::int32_t nobody = no_seat;

  share_rules rules;
  std::array<share_seat, most_seats> seats{};
  /// Is greater than the number of every taken seat.
  std::uint32_t seated = 0;
  /// Holds the virtual time at which new sessions begin, in ns.
  double virtual_now = 0;

  turn_state turns;
  concurrent_state concurrent;
  thread_state threads;
};
static_assert(std::is_trivially_copyable_v<share_table>);

/// Says how long work has its place in the device (`held`, from when it may
/// begin until the host notices its end), and how long the device works on it
/// (`worked`). The host needs the rest to bring the work. If only one of the
/// two is known, both have its value.
struct share_work {
  share_ns held = 0;
  share_ns worked = 0;
  /// Holds the time for which the host did nothing for the session but wait for
  /// the device. It is known of finished work only, and never predicted.
  share_ns awaited = 0;
};

struct share_outcome {
  /// Names the seat whose turn has just begun, or no_seat.
  std::int32_t granted = no_seat;
  /// Names the seats that waited and may bring work now, without a turn.
  seat_set let_in{};
  bool lets_in(std::int32_t seat) const {
    return let_in.test(static_cast<std::size_t>(seat));
  }
  /// Says when to arbitrate again, if nothing happens before.
  share_ns look_again = 0;
};

/// Says which seats the caller has to notify after a thread's step.
struct thread_outcome {
  /// Names the seats with threads that need not wait any more.
  seat_set let_in{};
  /// Counts these threads for each seat. Each has to call is_let_in().
  std::array<std::uint16_t, most_seats> woken{};
  /// Names the seats whose threads should call go_on() at once.
  seat_set hurried{};
};

} // namespace vgpu::policy
