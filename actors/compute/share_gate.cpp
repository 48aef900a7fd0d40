#include "actors/compute/share_gate.hpp"

#include "devices/interface/timing_unit.hpp"
#include "policies/compute/share.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

namespace vgpu {

using policy::share_ns;
using policy::share_table;
using policy::share_work;

namespace {

/// Gives the length from which a batch gets a completion. It is short enough
/// that the batch's time is the device's own, and not that of pauses between
/// its pieces.
constexpr share_ns long_batch = 250'000;
constexpr std::size_t large_batch = 64;
/// Gives the limit for a batch that teaches nothing, since requesting a
/// completion costs 64 short kernels a few percent of their time. It also holds
/// for a batch at which the device is watched, where it makes the microsecond
/// between the first record and the work negligible.
constexpr share_ns long_batch_concurrent = 1'000'000;
constexpr std::size_t large_batch_concurrent = 256;
/// Gives the largest number of pieces in the device at once, whatever their
/// predicted length. It keeps the device busy even with the shortest kernels
/// until completions arrive.
constexpr std::size_t most_pending = 8 * large_batch;
/// While sessions run concurrently, the quantum divided by this limits the work
/// of one session in the device. Work waits longer for its start then, and the
/// device continues with the other sessions' work when none of this session's
/// is left.
constexpr share_ns part_of_quantum_concurrent = 2;
/// Gives the number from which the driver's queue may be full, so that a call
/// waits for the device.
constexpr std::size_t fills_driver = 14 * large_batch;
/// Gives the time within which a program that waited for a result brings more
/// work. A longer wait was not for the device.
constexpr share_ns reacts_within = 50'000;
/// Gives the number of pending pieces at which a thread that waits for room
/// wakes, so that it does not wake for a little room.
constexpr std::size_t few_pending = most_pending / 2;
/// Says how often a turn may watch the device, at most, because the device
/// idles before each watch.
constexpr int most_looks = 8;
/// To watch the device, the gate waits for its present work until the predicted
/// end, and at most for the quantum divided by this longer. The waiting wastes
/// the turn, for other sessions too.
constexpr share_ns part_of_quantum_to_look = 4;
/// Gives the length from which a pause predicts little about the next.
constexpr share_ns longest_pause = 100'000'000;
/// Work that is this late may wait for work that is still to come: a host
/// function whose end lies further on in the log, or a kernel that polls for
/// what a later one writes.
constexpr share_ns overdue_after = 100'000'000;
constexpr share_ns overdue_factor = 4;

share_work& operator+=(share_work& x, const share_work& y) {
  x.held += y.held;
  x.worked += y.worked;
  return x;
}

} // namespace

/// Describes enqueued work that gets one completion at its end.
struct share_gate::batch {
  std::vector<work_key> what;
  share_work predicted;
  share_ns began = 0;
  bool learning = false; // one piece of unknown work, alone in the device
  bool exact = false;    // one kind, enqueued before the device began with it
  std::uint32_t partings = 0; // at the time when the batch began
  bool concurrent = false;    // together with other sessions' work
  bool queue_full = false;    // perhaps, when its last piece was enqueued
  share_ns awaited = 0; // how long the session waited for the device before

  share_ns longest() const {
    return concurrent || exact ? long_batch_concurrent : long_batch;
  }
  bool is_full() const {
    auto most =
        concurrent && !queue_full ? large_batch_concurrent : large_batch;
    return is_single() || predicted.held >= longest() || what.size() >= most;
  }
  /// Returns whether the batch may take one more piece.
  bool takes_in(work_key x) const {
    return !learning && (!exact || (x == what.front() && !is_single()));
  }
  bool is_single() const {
    return learning || (exact && is_timed_alone(what.front()));
  }
};

/// Describes the account of the session's work on this device. The threads on
/// which completions run share it.
struct share_gate::account {
  explicit account(std::shared_ptr<share_board> of)
      : board(of), lengths(std::move(of)) {}

  std::shared_ptr<share_board> board;
  std::int32_t seat = 0;
  time_source clock;
  device::timing_unit* times = nullptr; // may be null
  share_ns timed = 0;                   // by `times`, up to the last completion

  std::mutex lock; // Take it before the board's lock.
  work_lengths lengths;
  std::size_t pending = 0; // pieces of work in the device
  share_work predicted;    // the length of the pending work
  share_ns busy_since = 0; // when the first of it began
  share_ns began = 0;      // when the last of it began
  share_ns done_at = 0;    // when the last batch ended
  share_ns pause = 0;      // the average from an idle device to the next work
  bool paused = false;
  int looks = 0;                     // watches of the device in this turn
  std::atomic<share_ns> charged = 0; // the total
  share_ns next = -1; // the length of the work that waits; -1: none does

  /// Returns whether the work in the device should have ended long ago.
  bool overdue(share_ns now) const {
    return pending != 0 && now - std::max(began, done_at) >
                               overdue_after + overdue_factor * predicted.held;
  }

  /// Returns whether the device has enough work until the next completion. The
  /// limit is needed because predictions may be wrong and enqueued work cannot
  /// be taken back.
  bool crowded(const share_table& table, share_ns now) const {
    if (pending == 0)
      return false;
    if (policy::is_concurrent(table))
      return predicted.held > table.rules.quantum / part_of_quantum_concurrent;
    return pending >= most_pending ||
           now - std::max(busy_since, done_at) > table.rules.quantum;
  }

  /// Returns whether a thread that waits for room should wake.
  bool has_room(const share_table& table, share_ns now) const {
    return policy::is_concurrent(table)
               ? !crowded(table, now)
               : table.turns.holder() == seat && pending <= few_pending;
  }

  /// Records the end of a pause: the session has work again since `now`.
  void note_pause(share_ns now) {
    if (!std::exchange(paused, false))
      return;
    auto length = std::min(now - done_at, longest_pause);
    pause = (3 * pause + length) / 4;
  }

  enum class verdict {
    begins,
    no_room, // The device has enough of the session's work.
    no_turn
  };

  /// Decides whether work may begin. It ends the turn where the turn is over
  /// and the device is empty. Requires the board's lock.
  verdict may_begin(share_table& table, share_ns now,
                    std::optional<share_ns> length) {
    auto joins = policy::is_concurrent(table);
    if (!joins && !policy::holds(table, seat))
      return verdict::no_turn;
    if (overdue(now))
      return verdict::begins;
    if (crowded(table, now))
      return verdict::no_room;
    auto begins = joins ? policy::may_join(table, seat, now)
                        : has_turn_for(table, now, length);
    if (begins)
      return verdict::begins;
    return pending == 0 || joins ? verdict::no_turn : verdict::no_room;
  }

  /// Returns whether to watch the device at this work, which needs a device
  /// that no other session uses.
  bool would_look(const share_table& table, work_key what) {
    if (policy::is_concurrent(table) || table.concurrent.drains())
      return false;
    if (policy::is_fresh(table, seat))
      looks = 0;
    return times != nullptr && looks < most_looks &&
           lengths.is_inexact(what, table.concurrent.partings());
  }

  /// Says how a piece of work was admitted.
  struct admission {
    bool counted = false; // the device's time is charged
    bool watched = false; // alone, if the device is empty
    std::uint32_t partings = 0;
  };
  /// Requires the board's lock.
  admission admit(share_table& table, work_key what, const share_work& length,
                  share_ns now) {
    policy::want_nothing(table, seat);
    policy::begin_work(table, seat, now);
    policy::set_brought(table, seat, predicted.worked + length.worked);
    return {!policy::is_concurrent(table), would_look(table, what),
            table.concurrent.partings()};
  }

  /// Returns until when to wait for the present work, so that the device can be
  /// watched at the next; nothing where that is not possible. The wait is
  /// bounded because the present work may take longer than predicted, and may
  /// even wait for the next.
  std::optional<share_ns> wait_to_look(const share_table& table, work_key what,
                                       share_ns now) {
    if (pending == 0 || !would_look(table, what))
      return std::nullopt;
    auto until = std::max(began, done_at) + predicted.held +
                 table.rules.quantum / part_of_quantum_to_look;
    if (now < until)
      return until;
    lengths.give_up(what, table.concurrent.partings());
    return std::nullopt;
  }

  /// Returns whether the rest of the turn is enough for this work. It ends the
  /// turn where it is not and the device is empty.
  bool has_turn_for(share_table& table, share_ns now,
                    std::optional<share_ns> length) {
    auto fresh = pending == 0 && policy::is_fresh(table, seat);
    auto fits = [&] {
      auto left = policy::left_of_turn(table, now) - predicted.held;
      return length ? *length / 2 <= left : pending == 0 && left > 0;
    };
    if (fresh || fits())
      return true;
    if (policy::renew(table, seat, now) && fits())
      return true;
    if (pending == 0)
      policy::end_turn(table, seat);
    return false;
  }

  void note_done(const batch& of, const share_work& took) {
    if (of.learning)
      lengths.saw_first(of.what.front(), took);
    else if (of.exact) // it was delayed, so `held` says nothing
      lengths.saw_exactly(of.what.front(), of.what.size(), took.worked,
                          of.partings);
    else
      lengths.saw(of.what, of.predicted, took, pending == 0);
  }

  /// Returns how long the device worked since the last completion, which may
  /// include later work. Without a clock of the device, the whole time counts.
  /// Only completions may call it.
  share_ns worked(share_ns held, CUresult outcome) {
    if (times == nullptr || outcome != CUDA_SUCCESS)
      return held;
    auto all = times->timed(device::timed_for::turns).count();
    return all - std::exchange(timed, all);
  }

  void done(const batch& of, CUresult how) {
    if (times != nullptr && how == CUDA_SUCCESS)
      times->settle_times();
    policy::share_outcome outcome;
    auto room = false;
    auto alone = false;
    auto used = share_ns{0};
    {
      std::lock_guard guard{lock};
      auto now = clock();
      share_work took;
      took.held = std::max<share_ns>(now - std::max(of.began, done_at), 0);
      took.worked = worked(took.held, how);
      took.awaited = of.awaited;
      done_at = now;
      pending -= of.what.size();
      predicted.held -= of.predicted.held;
      predicted.worked -= of.predicted.worked;
      board->locked([&](share_table& table) {
        alone = !policy::is_concurrent(table) && !table.concurrent.drains();
        policy::set_brought(table, seat, predicted.worked);
        used = policy::charge(table, seat, of.predicted, took, now);
        settle(table, now);
        if (table.turns.holder() == share_table::nobody &&
            table.turns.waiting() != 0)
          outcome = policy::arbitrate(table, now);
        // A thread that waits for room wakes.
        room = next >= 0 && has_room(table, now);
      });
      // A batch that runs together with other sessions' work teaches nothing.
      if (alone || of.learning)
        note_done(of, took);
    }
    charged.fetch_add(used);
    if (room)
      board->ring(seat);
    board->tell(outcome);
  }

  /// Ends the turn where it is over, after the device finished a batch.
  void settle(share_table& table, share_ns now) {
    if (pending != 0)
      return;
    policy::end_work(table, seat, now, next >= 0);
    if (!policy::holds(table, seat))
      return;
    paused = next < 0;
    auto left = policy::left_of_turn(table, now);
    // A session whose usual pause exceeds the time that a turn may idle gives
    // the turn up at once.
    auto over = next >= 0 ? left < next / 2 && !policy::renew(table, seat, now)
                          : (left <= 0 && !policy::keep(table, seat, now)) ||
                                pause > table.rules.idle_after;
    if (!over)
      return;
    policy::end_turn(table, seat);
    if (next >= 0)
      policy::want(table, seat, now);
  }
};

share_gate::share_gate(std::shared_ptr<share_board> board, std::int32_t seat,
                       device::device& on, time_source clock)
    : board_(board), seat_(seat), device_(on),
      account_(std::make_shared<account>(std::move(board))) {
  account_->seat = seat;
  account_->clock = std::move(clock);
  account_->times = dynamic_cast<device::timing_unit*>(&on);
}

/// The first piece admits a whole batch, because sessions that enqueue many
/// short kernels would otherwise contend for the board's lock.
bool share_gate::goes_along(work_key what, share_ns now) {
  if (!unmarked_)
    return false;
  // An older batch would count the pauses between its pieces as work.
  if (now - open_->began > open_->longest() || !open_->takes_in(what)) {
    look_at_batch(true);
    return false;
  }
  auto& of = *account_;
  std::lock_guard guard{of.lock};
  auto known = of.lengths.predict(what);
  if (!known)
    return false;
  add(what, *known, now);
  return true;
}

/// Requires the account's lock.
void share_gate::add(work_key what, const share_work& length, share_ns now) {
  auto& of = *account_;
  note_awaited(now);
  open_->what.push_back(what);
  open_->predicted += length;
  of.predicted += length;
  of.began = now;
  ++of.pending;
  unmarked_ = true;
}

/// Records how long the session only waited for the device before this work.
/// Requires the account's lock.
void share_gate::note_awaited(share_ns now) {
  auto& of = *account_;
  auto since = std::exchange(resting_since_, 0);
  open_->queue_full = of.pending >= fills_driver;
  if (since == 0 && open_->queue_full)
    since = of.began;
  auto until = of.pending != 0 ? now : of.done_at;
  if (since != 0)
    open_->awaited += std::max<share_ns>(until - since - reacts_within, 0);
}

bool share_gate::take_turn(work_key what) {
  auto& of = *account_;
  if (goes_along(what, of.clock()))
    return true;
  policy::share_outcome outcome;
  auto may = false;
  account::admission admitted;
  {
    std::lock_guard guard{of.lock};
    auto now = of.clock();
    of.note_pause(now);
    auto known = of.lengths.predict(what);
    auto length = known.value_or(share_work{});
    rings_ = board_->rings(seat_);
    board_->locked([&](share_table& table) {
      if (!known && policy::is_concurrent(table))
        policy::part(table);
      policy::set_copies(table, seat_, is_timed_alone(what));
      auto verdict = of.may_begin(
          table, now, known ? std::optional{known->held} : std::nullopt);
      auto looks_at = verdict == account::verdict::begins
                          ? of.wait_to_look(table, what, now)
                          : std::nullopt;
      if (verdict == account::verdict::no_turn) {
        policy::want(table, seat_, now);
        outcome = policy::arbitrate(table, now);
        look_again_ = outcome.look_again;
        may = outcome.granted == seat_ || outcome.lets_in(seat_);
      } else {
        may = verdict == account::verdict::begins && !looks_at;
        look_again_ = looks_at.value_or(now + table.rules.stalled_after);
      }
      if (may)
        admitted = of.admit(table, what, length, now);
    });
    of.next = may ? -1 : length.held;
    if (may) {
      begin_batch(what, length, now, known.has_value());
      open_->concurrent = open_->concurrent || !admitted.counted;
      if (admitted.watched && of.pending == 1)
        watch(admitted.partings);
    }
  }
  if (outcome.granted != seat_)
    board_->tell(outcome);
  if (of.times != nullptr)
    of.times->time(admitted.counted ? device::timed_for::turns
                                    : device::timed_for::nobody);
  // Without a completion at its end, the waiting thread would never get room.
  if (!may)
    rest();
  return may;
}

/// Makes the device measure the new batch exactly. Requires the account's lock.
void share_gate::watch(std::uint32_t partings) {
  auto& of = *account_;
  open_->exact = true;
  open_->partings = partings;
  ++of.looks;
  if (!open_->is_single())
    of.times->delay();
}

/// Begins a batch or continues the open one. Requires the account's lock.
void share_gate::begin_batch(work_key what, const share_work& length,
                             share_ns now, bool known) {
  auto& of = *account_;
  if (!open_) {
    open_ = std::make_shared<batch>();
    open_->began = now;
  }
  if (of.pending == 0) {
    of.busy_since = now;
    open_->learning = !known;
  }
  add(what, length, now);
}

void share_gate::look_at_batch(bool all) {
  if (!all && !open_->is_full())
    return;
  unmarked_ = false;
  device_.when_done(std::nullopt,
                    [of = account_, what = std::exchange(open_, nullptr)](
                        CUresult how) { of->done(*what, how); });
}

void share_gate::begin_rest() {
  if (unmarked_)
    look_at_batch(true);
  if (resting_since_ == 0)
    resting_since_ = account_->clock();
}

std::chrono::nanoseconds share_gate::charged() const noexcept {
  return std::chrono::nanoseconds{account_->charged.load()};
}

void share_gate::wait(std::chrono::nanoseconds at_most) {
  auto left = std::chrono::nanoseconds{look_again_ - account_->clock()};
  if (left.count() > 0)
    board_->await(seat_, rings_, std::min(left, at_most));
}

} // namespace vgpu
