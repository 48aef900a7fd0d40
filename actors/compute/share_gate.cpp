#include "actors/compute/share_gate.hpp"

#include "devices/interface/timing_unit.hpp"
#include "policies/compute/share_concurrent.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

namespace vgpu {

using policy::share_ns;
using policy::share_table;
using policy::share_work;

namespace {

/// Work is asked for its end after so much of it. Little enough that what a
/// batch takes is the device's time, and not that between its pieces.
constexpr share_ns long_batch = 250'000;
constexpr std::size_t large_batch = 64;
/// Where nothing is learned from what it takes, as to ask costs 64 short
/// kernels some hundredths of their time; and where the device is watched, as
/// the microsecond between a batch's first record and its work is little beside
/// that of 64.
constexpr share_ns long_batch_concurrent = 1'000'000;
constexpr std::size_t large_batch_concurrent = 256;
/// So much may be in the device at once, whatever is predicted of it: enough to
/// keep it busy with the shortest of kernels while it tells what is done.
constexpr std::size_t most_pending = 8 * large_batch;
/// Where other sessions' work is in the device too, it takes longer to come to
/// one's own, and goes on to theirs as soon as none of that is left: so much of
/// a quantum, or as many pieces as the driver takes.
constexpr share_ns part_of_quantum_concurrent = 2;
/// From so many on its queue may be full: a call then waits for the device.
constexpr std::size_t fills_driver = 14 * large_batch;
/// A program that heard what it waited for brings more within this: nothing
/// that took so long was waited for from the device.
constexpr share_ns reacts_within = 50'000;
/// Who waits for room is woken when so much is left, not for a little of it.
constexpr std::size_t few_pending = most_pending / 2;
/// So often the device is watched in a turn, at most: it waits before that.
constexpr int most_looks = 8;
/// To watch it, work that the device has is waited for until it should be done,
/// and for so large a part of a quantum longer: meanwhile the turn is lost, for
/// others too.
constexpr share_ns part_of_quantum_to_look = 4;
/// A pause longer than this says little about the next.
constexpr share_ns longest_pause = 100'000'000;
/// Work that is not done so long after it should be may wait for work that is
/// still to come: a host function whose end lies further on in the log, a
/// kernel that looks for what a later one writes.
constexpr share_ns overdue_after = 100'000'000;
constexpr share_ns overdue_factor = 4;

share_work& operator+=(share_work& x, const share_work& y) {
  x.held += y.held;
  x.worked += y.worked;
  return x;
}

} // namespace

/// Work that is enqueued, up to where its end is asked for.
struct share_gate::batch {
  std::vector<work_key> what;
  share_work predicted;
  share_ns began = 0;
  bool learning = false; // one thing, never seen before, alone in the device
  bool exact = false;    // one kind, at hand before the device began with it,
  std::uint32_t partings = 0; // when there had been so many
  bool together = false;      // with other sessions' work
  bool queue_full = false;    // perhaps, when its last piece came
  share_ns awaited = 0;       // the device, before that

  share_ns longest() const {
    return together || exact ? long_batch_concurrent : long_batch;
  }
  bool is_full() const {
    auto most = together && !queue_full ? large_batch_concurrent : large_batch;
    return is_single() || predicted.held >= longest() || what.size() >= most;
  }
  /// Whether a piece more belongs to it.
  bool takes_in(work_key x) const {
    return !learning && (!exact || (x == what.front() && !is_single()));
  }
  bool is_single() const {
    return learning || (exact && is_timed_alone(what.front()));
  }
};

/// What is known of the session's work on this device. Shared with the
/// device's threads, which tell when work is done.
struct share_gate::account {
  explicit account(std::shared_ptr<share_board> of)
      : board(of), lengths(std::move(of)) {}

  std::shared_ptr<share_board> board;
  std::int32_t seat = 0;
  time_source clock;
  device::timing_unit* times = nullptr; // may be none
  share_ns timed = 0;                   // by it, up to what was done last

  std::mutex lock; // before the board's
  work_lengths lengths;
  std::size_t pending = 0; // pieces of work in the device
  share_work predicted;    // how long they take
  share_ns busy_since = 0; // the first of it
  share_ns began = 0;      // the last of it
  share_ns done_at = 0;    // when the last batch ended
  share_ns pause = 0; // from the device's idleness to the next work, usually
  bool paused = false;
  int looks = 0; // in this turn, at how long work takes exactly
  std::atomic<share_ns> charged = 0; // ever
  share_ns next = -1; // how long the work takes that waits; -1: none waits

  /// Whether what is in the device should long be done.
  bool overdue(share_ns now) const {
    return pending != 0 && now - std::max(began, done_at) >
                               overdue_after + overdue_factor * predicted.held;
  }

  /// Whether enough is in the device until it tells that some of it is done.
  /// What was predicted may be wrong, and work in the device cannot be taken
  /// back.
  bool crowded(const share_table& table, share_ns now) const {
    if (pending == 0)
      return false;
    if (policy::together(table))
      return predicted.held > table.rules.quantum / part_of_quantum_concurrent;
    return pending >= most_pending ||
           now - std::max(busy_since, done_at) > table.rules.quantum;
  }

  /// Whether it is worth waking who waits for room.
  bool has_room(const share_table& table, share_ns now) const {
    return policy::together(table)
               ? !crowded(table, now)
               : table.holder == seat && pending <= few_pending;
  }

  /// The session has work again, `now` being when it came.
  void note_pause(share_ns now) {
    if (!std::exchange(paused, false))
      return;
    auto length = std::min(now - done_at, longest_pause);
    pause = (3 * pause + length) / 4;
  }

  enum class verdict {
    begins,
    no_room, // enough of its work is in the device
    no_turn
  };

  /// Whether work may begin; ends the turn where it is over and nothing is
  /// left in the device. With the board's lock.
  verdict may_begin(share_table& table, share_ns now,
                    std::optional<share_ns> length) {
    auto joins = policy::together(table);
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

  /// Whether the device is to be watched at this, which nobody else uses.
  bool would_look(const share_table& table, work_key what) {
    if (policy::together(table) || table.draining != 0)
      return false;
    if (policy::is_fresh(table, seat))
      looks = 0;
    return times != nullptr && looks < most_looks &&
           lengths.is_inexact(what, table.partings);
  }

  /// How work was let in.
  struct admission {
    bool counted = false; // what it takes the device is charged
    bool watched = false; // alone, if nothing is in the device
    std::uint32_t partings = 0;
  };
  /// With the board's lock.
  admission admit(share_table& table, work_key what, const share_work& length,
                  share_ns now) {
    policy::want_nothing(table, seat);
    policy::begin_work(table, seat, now);
    policy::set_brought(table, seat, predicted.worked + length.worked);
    return {!policy::together(table), would_look(table, what), table.partings};
  }

  /// Until when to wait for what is in the device, so that this can be watched;
  /// nothing where it cannot. What is there may take longer than it should, and
  /// even wait for this.
  std::optional<share_ns> wait_to_look(const share_table& table, work_key what,
                                       share_ns now) {
    if (pending == 0 || !would_look(table, what))
      return std::nullopt;
    auto until = std::max(began, done_at) + predicted.held +
                 table.rules.quantum / part_of_quantum_to_look;
    if (now < until)
      return until;
    lengths.give_up(what, table.partings);
    return std::nullopt;
  }

  /// Whether what is left of its turn is enough. Ends it where it is not, and
  /// nothing is left in the device.
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
    else if (of.exact) // it was made to begin later, and so had its place
                       // longer
      lengths.saw_exactly(of.what.front(), of.what.size(), took.worked,
                          of.partings);
    else
      lengths.saw(of.what, of.predicted, took, pending == 0);
  }

  /// How long the device worked since it was asked last, which may be on what
  /// comes behind as well; without a clock of its own, all the while. Of its
  /// completions alone.
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
        alone = !policy::together(table) && table.draining == 0;
        policy::set_brought(table, seat, predicted.worked);
        used = policy::charge(table, seat, of.predicted, took, now);
        settle(table, now);
        if (table.holder == share_table::nobody && table.waiting != 0)
          outcome = policy::arbitrate(table, now);
        // Who waits for room hears of it.
        room = next >= 0 && has_room(table, now);
      });
      // Among others' work nothing is learned.
      if (alone || of.learning)
        note_done(of, took);
    }
    charged.fetch_add(used);
    if (room)
      board->ring(seat);
    board->tell(outcome);
  }

  /// The device is done with a batch: ends the turn where it is over.
  void settle(share_table& table, share_ns now) {
    if (pending != 0)
      return;
    policy::end_work(table, seat, now, next >= 0);
    if (!policy::holds(table, seat))
      return;
    paused = next < 0;
    auto left = policy::left_of_turn(table, now);
    // Who pauses for longer than a turn is left unused gives it up at once.
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

/// A batch is let in as a whole, by its first piece: with floods of short
/// kernels the board's lock would be what sessions wait for.
bool share_gate::goes_along(work_key what, share_ns now) {
  if (!unmarked_)
    return false;
  // A batch of pieces with pauses between them would count these.
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

/// With the account's lock.
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

/// How long there was nothing to do, since work was brought last, but to wait
/// for what is in the device. With the account's lock.
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
      if (!known && policy::together(table))
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
      open_->together = open_->together || !admitted.counted;
      if (admitted.watched && of.pending == 1)
        watch(admitted.partings);
    }
  }
  if (outcome.granted != seat_)
    board_->tell(outcome);
  if (of.times != nullptr)
    of.times->time(admitted.counted ? device::timed_for::turns
                                    : device::timed_for::nobody);
  // Its end must be asked for, or room never comes.
  if (!may)
    rest();
  return may;
}

/// What the device works on the batch that has just begun is to be told
/// exactly. With the account's lock.
void share_gate::watch(std::uint32_t partings) {
  auto& of = *account_;
  open_->exact = true;
  open_->partings = partings;
  ++of.looks;
  if (!open_->is_single())
    of.times->delay();
}

/// Or goes on with one. With the account's lock.
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
