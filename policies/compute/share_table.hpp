// What the processes that share a pGPU know of its sessions: plain data without
// addresses, which may lie in shared memory (actors/compute/share_board.hpp).
// Each engine has its part here, which no other engine can change.
#pragma once

#include "policies/compute/share_policies.hpp"

#include <array>
#include <bitset>
#include <cstdint>
#include <type_traits>

namespace vgpu::policy {

/// Nanoseconds: a point of the monotonic clock, or a span.
using share_ns = std::int64_t;

struct share_rules {
  share_policy policy = share_policy::guarantee;
  /// How long a turn lasts while another session waits. Threads may be ahead,
  /// or save up, by parts of it.
  share_ns quantum = 20'000'000;
  /// 0: one session at a time has the device, for a turn. Otherwise the device
  /// is threads of this many processors of its host, which work for several
  /// sessions at once and are admitted one by one.
  std::uint32_t processors = 0;
  /// Whether turns may be given up while sessions get more done concurrently
  /// (concurrent_engine.hpp). 0: never.
  std::uint32_t joins = 1;
  /// A session that got nothing for this long counts as starved, and goes
  /// before those of higher rank.
  share_ns starved_after = 1'000'000'000;
  /// A turn whose work is done is taken back when no more work comes for this
  /// long.
  share_ns idle_after = 1'000'000;
  /// A turn that was given to a waiting session is taken back when it is unused
  /// for this long. The session has work, and wakes up as soon as a busy host
  /// lets it: were its turn taken back sooner, it would lose its share to
  /// sessions that wake up faster.
  share_ns unused_after = 250'000'000;
  /// A turn whose work does not end is taken back after this. The work may
  /// never end, or may wait for what only the next turn can do (kernels of one
  /// program on two devices that wait for each other).
  share_ns stalled_after = 2'000'000'000;
};

/// A seat's part of the turns. The turn engine changes it.
class turn_seat {
  friend class turn_engine;

  /// Whether the session was idle last although it had work at hand.
  std::uint32_t more_ = 0;
  /// When the session began to wait for a turn.
  share_ns wants_since_ = 0;
};

/// A seat's part of running concurrently. The concurrent engine changes it.
class concurrent_seat {
  friend class concurrent_engine;

public:
  /// How long its turns took since the last round of turns began, in ns.
  double turns_took() const { return turns_took_; }

private:
  /// For how long the seat's latest work was predicted to have its place in the
  /// device alone, in ns.
  double predicted_ = 0;
  /// For how long the same work had its place, in ns.
  double took_ = 0;
  /// For how long the host waited for the device meanwhile, in ns.
  double awaited_ = 0;
  /// Whether its next work is done by engines that kernels do not use.
  std::uint32_t copies_ = 0;
  double turns_took_ = 0;
  /// For how much of turns_took() its work had a place, in ns.
  double turns_held_ = 0;
};

/// A seat's threads. The thread engine changes it.
class thread_seat {
  friend class thread_engine;

public:
  /// Threads that have something to do, and may do it.
  std::uint32_t running() const { return running_; }
  /// Threads that have something to do, and may not do it yet.
  std::uint32_t waiting() const { return waiting_; }

private:
  std::uint32_t running_ = 0;
  std::uint32_t waiting_ = 0;
  /// Whether the session is above its share, and yields to others.
  std::uint32_t held_ = 0;
  /// Since when no thread of the session runs although some wait.
  share_ns waits_since_ = 0;
  /// A starved session goes first until it has used this much device time.
  std::uint64_t favoured_ = 0;
};

/// One session's place at a pGPU.
struct share_seat {
  share_claim claim{};
  /// Whether a session sits here.
  std::uint32_t taken = 0;
  /// The session's part of all weights, which add up to 1 at most.
  double weight = 0;
  /// Device time divided by weight, in ns.
  double virtual_time = 0;
  /// Device time that is left under the session's limit, in ns.
  double credit = 0;
  /// When `credit` was right.
  share_ns credited_at = 0;
  /// Whether the credit was used up and not enough of it is back.
  std::uint32_t spent = 0;
  /// Whether the session has work in the device.
  std::uint32_t working = 0;
  /// When the session's work began, went on or ended last.
  share_ns heard_at = 0;
  /// Device time that the session used since it sat down, in ns.
  std::uint64_t used = 0;
  /// Turns that the session had, or threads of it that were woken.
  std::uint64_t turns = 0;
  /// Whether the session has work that waits for a turn.
  std::uint32_t wants = 0;
  /// Whether the session was admitted without a turn and has not brought its
  /// work yet, or how many of its threads run and have not heard of it.
  std::uint32_t let_in = 0;
  /// How long the device is predicted to work on what is in it of the
  /// session's, in ns.
  double brought = 0;

  turn_seat turn{};
  concurrent_seat concurrent{};
  thread_seat threads{};
};

inline constexpr std::size_t most_seats = 128;
using seat_set = std::bitset<most_seats>;

/// Means no seat.
inline constexpr std::int32_t no_seat = -1;

/// Whose turn it is. The turn engine changes it.
class turn_state {
  friend class turn_engine;

public:
  /// The seat that has the turn; no_seat: none has.
  std::int32_t holder() const { return holder_; }
  /// How many seats wait for a turn.
  std::uint32_t waiting() const { return waiting_; }
  /// When the holder's turn ends.
  share_ns until() const { return until_; }
  /// Whether the holder has brought no work yet.
  bool is_fresh() const { return idle_since_ == began_; }
  /// How long turns lasted lately.
  share_ns lately() const { return share_ns{lately_us_} * 1000; }

private:
  std::int32_t holder_ = no_seat;
  std::uint32_t waiting_ = 0;
  std::uint32_t lately_us_ = 0;
  /// The seat that had the last turn.
  std::int32_t had_turn_ = no_seat;
  /// When the holder's turn began; 0: there was none before.
  share_ns began_ = 0;
  share_ns until_ = 0;
  /// Since when the holder has no work in the device; 0: it has some.
  share_ns idle_since_ = 0;
};

/// Whether sessions run concurrently, and what that gains. The concurrent
/// engine changes it.
class concurrent_state {
  friend class concurrent_engine;

public:
  /// Whether sessions run concurrently: each brings its work when it has some.
  bool is_on() const { return on_ != 0; }
  /// Whether they no longer do, but some of that work is still in the device.
  bool drains() const { return draining_ != 0; }
  /// How often sessions went back to turns.
  std::uint32_t partings() const { return partings_; }
  /// How many turns there were since they last did.
  std::uint32_t turns_since() const { return turns_since_; }

private:
  std::uint32_t on_ = 0;
  std::uint32_t draining_ = 0;
  std::uint32_t turns_since_ = 0;
  std::uint32_t partings_ = 0;
  /// When sessions last began to run concurrently.
  share_ns tried_at_ = 0;
  /// They may try again this long after they last began to.
  share_ns try_after_ = 0;
  /// Turns come again after this long, to measure what work takes alone.
  share_ns refresh_after_ = 0;
  /// The beginning of the present measurement.
  share_ns since_ = 0;
  /// How long all that was done since then takes alone, in ns.
  double progress_ = 0;
  /// How long the device works for that, in ns.
  double worked_ = 0;
  /// The device's work in a second when it was first measured.
  double usual_load_ = 0;
  /// Whether the device had nothing to do for much of the last measurement.
  std::uint32_t slack_ = 0;
};

/// The threads of all seats. The thread engine changes it.
class thread_state {
  friend class thread_engine;

public:
  /// How many threads run.
  std::uint32_t running() const { return running_; }
  /// The seats with threads that run or wait.
  const seat_set& busy() const { return busy_; }

private:
  std::uint32_t running_ = 0;
  seat_set busy_{};
};

/// A pGPU's seats, and what the engines know of them. Not thread-safe: every
/// function on a table is given the time, and its caller excludes others.
struct share_table {
  static constexpr std::int32_t nobody = no_seat;

  share_rules rules;
  std::array<share_seat, most_seats> seats{};
  /// All taken seats are before this one.
  std::uint32_t seated = 0;
  /// The virtual time at which newcomers begin, in ns.
  double virtual_now = 0;

  turn_state turns;
  concurrent_state concurrent;
  thread_state threads;
};
static_assert(std::is_trivially_copyable_v<share_table>);

/// How long work has its session's place in the device, from where it may begin
/// to where its end is noticed, and how long the device works on it meanwhile:
/// the rest is the host's, which brings it. Where only one is known it is both.
struct share_work {
  share_ns held = 0;
  share_ns worked = 0;
  /// For how long the host had nothing to do for its session but to wait for
  /// the device. Known of finished work only, never predicted.
  share_ns awaited = 0;
};

struct share_outcome {
  /// The seat whose turn has just begun; no_seat: none.
  std::int32_t granted = no_seat;
  /// Seats that waited and may bring work now, without a turn.
  seat_set let_in{};
  bool lets_in(std::int32_t seat) const {
    return let_in.test(static_cast<std::size_t>(seat));
  }
  /// When to arbitrate again at the latest, if nothing is heard until then.
  share_ns look_again = 0;
};

/// What a thread's step changed for others, whom the caller has to notify.
struct thread_outcome {
  /// Seats some of whose threads wait no more.
  seat_set let_in{};
  /// How many threads of each: each of them has to call is_let_in().
  std::array<std::uint16_t, most_seats> woken{};
  /// Seats whose threads should call go_on() now, and not when it suits them.
  seat_set hurried{};
};

} // namespace vgpu::policy
