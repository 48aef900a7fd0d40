// When a session's snapshot is due, so that it recovers in the promised time.
#pragma once

#include "policies/placement/views.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace vgpu::policy {

/// Holds what a session was promised.
struct recovery_options {
  /// Says in what time a session that lost its worker is where it was.
  duration within = std::chrono::seconds{2};
  /// Limits the part of the session's time that snapshots take, from 0 to 1.
  double cost = 0.02;
  /// Says how long no snapshot is tried after one that failed. It doubles with
  /// each further failure.
  duration first_rest = std::chrono::seconds{2};
  duration longest_rest = std::chrono::minutes{5};
};

/// Describes work that a session's worker has executed.
struct executed_work {
  std::uint64_t calls = 0;
  duration device{0}; // for which its devices worked
  duration served{0}; // for which the worker was busy with the calls

  executed_work& operator+=(const executed_work& x);
  /// Returns what came after `x`. Nothing is less than zero.
  executed_work since(const executed_work& x) const;
};

/// Estimates how long executing calls again takes. It learns what a call costs
/// from the calls that are executed, and how a replay differs from that from
/// the replays that there are.
class replay_estimate {
public:
  /// Takes work that was executed the first time.
  void learn(const executed_work& x);
  /// Takes a replay of this work, which took so long.
  void learn_replay(const executed_work& x, duration took);

  /// Returns how long a replay of this work takes. It is the sum of the calls'
  /// time and the devices' time, because both may have to wait for each other.
  duration of(const executed_work& x) const;
  /// Returns how long a worker is busy with one call.
  duration per_call() const;

private:
  duration plain(const executed_work& x) const;

  /// Holds recent calls and the time that they took. The first ones are
  /// assumed.
  double calls_ = 10'000;
  double served_ns_ = 10'000 * 5'000.0;
  double factor_ = 1; // a replay's time by the estimate's
};

/// Says what a snapshot took.
struct snapshot_effort {
  std::uint64_t bytes = 0; // of the state
  duration stood{0};       // for which the session stood still
  duration delayed{0};     // for which copies kept processors from others
  duration took{0};        // in all, beginning with the first copy
};

/// Limits the time that snapshots take to a part of all time. A snapshot that
/// was dearer than its credit is paid by those after it.
class snapshot_budget {
public:
  snapshot_budget(double part, time_point now) : part_(part), since_(now) {}

  /// Allows another part of the time from now on. The credit stays, except
  /// where nothing is allowed any more.
  void allow(double part, time_point now);
  /// Takes what a snapshot has cost.
  void spend(duration cost, time_point now);
  /// Returns when there is credit for a snapshot of this cost, or
  /// time_point::max() if there never is.
  time_point affords(duration cost, time_point now) const;

private:
  double credit(double most, time_point now) const;

  double part_;
  double credit_ns_ = 0;
  time_point since_;
};

/// Says what holds of the promise.
struct recovery_outlook {
  /// Says whether the session recovers in the promised time.
  bool holds = true;
  /// Says in about what time it recovers if the promise does not hold.
  duration within{0};
  /// Says which part of the time snapshots would cost that made it hold; zero:
  /// the cost is not the reason.
  double would_cost = 0;
  /// Says why no snapshot is taken, if the last one failed.
  std::string trouble{};
};

/// Returns the outlook for people, as "recovers in about 7 s: snapshots would
/// cost 12 %".
std::string to_text(const recovery_outlook& x);

/// Decides when a session's snapshot is due. Its inputs are the worker's
/// account, the snapshots and the time. It knows neither clock nor actor.
///
/// A snapshot is due when a recovery, which restores the newest snapshot and
/// replays the calls since, takes as long as promised. It waits for credit of
/// the budget, and after a failure.
class recovery_time {
public:
  recovery_time(const recovery_options& options, time_point now)
      : options_(options), budget_(options.cost, now), stopped_at_(now),
        covered_at_(now) {}

  // -- what happens -----------------------------------------------------------

  /// Takes another promise, and keeps what was learnt.
  void promise(const recovery_options& options, time_point now);
  /// Takes all work that the present worker has executed.
  void note_work(const executed_work& total);
  /// Prepares for another worker, whose account begins with zero. `repeats`
  /// says that it executes the calls since the newest snapshot again.
  void begin_worker(bool repeats);
  /// Takes a replay of all calls since the newest snapshot.
  void note_replay(duration took);
  /// Notes that the work so far will be in the snapshot under way.
  void note_stopped(time_point now) {
    in_next_ = total();
    stopped_at_ = now;
  }
  /// Takes a snapshot.
  void note_snapshot(const snapshot_effort& what, time_point now);
  /// Takes a snapshot that the budget does not pay.
  void note_cover(std::uint64_t bytes);
  /// Takes a snapshot that failed.
  void note_failure(std::string why, duration stood, duration took,
                    time_point now);
  /// Notes why no snapshot can be taken at all; empty: one can.
  void note_trouble(std::string why) { trouble_ = std::move(why); }
  /// Notes that the newest snapshot covers all work.
  void note_covered() { covered_ = total(); }
  /// Expects a state of so many bytes, before there is a snapshot.
  void expect_state(std::uint64_t bytes) { expected_bytes_ = bytes; }

  // -- decisions --------------------------------------------------------------

  /// Returns when a snapshot is due, or time_point::max() if none is.
  time_point due(time_point now) const;
  /// Returns how long a recovery from here would take.
  duration estimate() const;
  /// Returns what a replay of the calls since the newest snapshot repeats.
  executed_work uncovered() const { return total().since(covered_); }
  const replay_estimate& replays() const noexcept { return replays_; }

  /// Returns the outlook if it is another than the last one that this function
  /// returned: the promise holds or not, for another reason, or the time is
  /// half as long again.
  std::optional<recovery_outlook> news(time_point now);

private:
  executed_work total() const;
  duration restoring() const;
  duration replay_within() const;
  duration expected_cost() const;
  bool misses() const;
  recovery_outlook outlook(time_point now) const;

  recovery_options options_;
  replay_estimate replays_;
  snapshot_budget budget_;

  executed_work before_{};  // of former workers
  executed_work present_{}; // of the present one
  executed_work covered_{}; // in the newest snapshot
  executed_work in_next_{}; // in the snapshot under way

  std::uint64_t expected_bytes_ = 0;
  std::uint64_t bytes_ = 0;        // of the newest snapshot
  std::optional<duration> cost_{}; // of a snapshot
  std::string trouble_{};
  duration rest_{0};
  time_point rests_until_{};
  time_point stopped_at_; // when the session stood still for the one under way
  time_point covered_at_; // when it did so for the newest one
  unsigned kept_ = 0;     // snapshots in a row until which the promise held
  recovery_outlook told_{};
};

} // namespace vgpu::policy
