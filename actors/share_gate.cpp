#include "actors/share_gate.hpp"

#include "devices/timing_unit.hpp"
#include "policies/share_together.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace vgpu {

using policy::share_ns;
using policy::share_table;
using policy::share_work;

namespace {

/// Work is asked for its end after so much of it. Little enough that what a
/// batch takes is the device's time, and not that between its pieces.
constexpr share_ns long_batch = 250'000;
constexpr std::size_t large_batch = 64;
/// So much may be in the device at once, whatever is foretold of it: enough to
/// keep it busy with the shortest of kernels while it tells what is done.
constexpr std::size_t most_pending = 8 * large_batch;
/// Where other sessions' work is in the device too, it takes longer to come to
/// one's own: less than a driver's queue holds, and a part of a quantum.
constexpr std::size_t most_pending_together = 14 * large_batch;
constexpr share_ns part_of_quantum_together = 2;
/// Who waits for room is woken when so much is left, not for a little of it.
constexpr std::size_t few_pending = most_pending / 2;
/// Nothing is foretold to take less.
constexpr double least_length = 1'000;
constexpr double least_exact_length = 100;
/// Where a piece of work takes so long, what the host needs between two of them
/// does not matter.
constexpr double long_enough = 100'000;
/// Of less than this the records of two events are too much.
constexpr share_ns worth_telling = 5'000;
constexpr share_ns longest_copy = 1'000'000'000;
/// So often the device is watched in a turn, at most: it waits before that.
constexpr int most_looks = 8;
/// What is foretold follows what was measured so far at once, at most.
constexpr double largest_error = 4;
/// Looked at less often than this, work may still take anything.
constexpr unsigned few_times = 3;
/// Less than this tells little: clocks, and who reads them, are not exact.
constexpr share_ns told_by = 500'000;
/// What is known of more kinds of work than these is forgotten.
constexpr std::size_t most_kinds = 4096;
/// A pause longer than this says little about the next.
constexpr share_ns longest_pause = 100'000'000;
/// Work that is not done so long after it should be may wait for work that is
/// still to come: a host function whose end lies further on in the log, a
/// kernel that looks for what a later one writes.
constexpr share_ns overdue_after = 100'000'000;
constexpr share_ns overdue_factor = 4;

work_key mixed(std::uint64_t a, std::uint64_t b) {
  auto x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 31);
}

share_work& operator+=(share_work& x, const share_work& y) {
  x.held += y.held;
  x.worked += y.worked;
  return x;
}

double ratio_of(share_ns took, share_ns foretold) {
  return static_cast<double>(took) /
         static_cast<double>(std::max<share_ns>(foretold, 1));
}

/// What is foretold of work anew: all of the way as long as little is known,
/// as what was seen once may have been anything; then half of it, in both
/// directions alike.
double correction(double ratio, unsigned times) {
  if (times < few_times)
    return ratio;
  return std::sqrt(std::clamp(ratio, 1 / largest_error, largest_error));
}

/// Copies of about the same size take about as long. Of long ones each is worth
/// two records of an event, and so is marked.
constexpr work_key marked_long = work_key{1} << 63;
constexpr bool is_marked_long(work_key x) {
  return (x & marked_long) != 0;
}
/// How often the device is watched at work of a kind.
constexpr int looks_at(work_key x) {
  return is_marked_long(x) ? 4 : 1;
}

work_key copy_key(call::number kind, const call::extent& size) {
  auto rows = size.height * size.depth;
  auto key = mixed(static_cast<std::uint64_t>(kind),
                   std::bit_width(size.width * rows) * 64u +
                       static_cast<unsigned>(std::bit_width(rows)));
  return size.width * rows >= device::long_copy ? key | marked_long
                                                : key & ~marked_long;
}

} // namespace

work_key key_of(const call::launch& x) {
  auto blocks = std::uint64_t{x.grid.x} * x.grid.y * x.grid.z;
  return mixed(mixed(x.module.id.value, x.kernel), blocks) & ~marked_long;
}
work_key key_of(const call::write& x) {
  return copy_key(call::write::id, x.size);
}
work_key key_of(const call::read& x) {
  return copy_key(call::read::id, x.size);
}
work_key key_of(const call::read_host& x) {
  return copy_key(call::read_host::id, x.size);
}
work_key key_of(const call::copy& x) {
  return copy_key(call::copy::id, x.size);
}
work_key key_of(const call::fill& x) {
  return copy_key(call::fill::id, x.size);
}

/// Work that is enqueued, up to where its end is asked for.
struct share_gate::batch {
  std::vector<work_key> what;
  share_work foretold;
  share_ns began = 0;
  bool learning = false; // one thing, never seen before, alone in the device
  bool exact = false;    // one kind, at hand before the device began with it,
  std::uint32_t partings = 0; // when there had been so many

  /// Whether a piece more belongs to it.
  bool takes_in(work_key x) const {
    return !learning && (!exact || (x == what.front() && !is_single()));
  }
  bool is_single() const {
    return learning || (exact && is_marked_long(what.front()));
  }
};

/// What is known of the session's work on this device. Shared with the
/// device's threads, which tell when work is done.
struct share_gate::account {
  std::shared_ptr<share_board> board;
  std::int32_t seat;
  time_source clock;
  device::timing_unit* times = nullptr; // may be none
  share_ns timed = 0;                   // by it, up to what was done last

  struct kind {
    double held, worked;    // ns
    unsigned corrected = 0; // so often
    /// What the device works is exact, and was looked at when there had been so
    /// many partings of sessions.
    std::optional<std::uint32_t> exact_since = {};
    int looked = 0; // so often since then

    void correct(double held_ratio, double worked_ratio) {
      held = std::max(held * correction(held_ratio, corrected), least_length);
      if (!exact_since)
        worked = std::max(worked * correction(worked_ratio, corrected),
                          least_length);
      ++corrected;
    }
  };
  std::mutex lock;                          // before the board's
  std::unordered_map<work_key, kind> takes; // alone
  std::vector<work_key> done_since;         // it was last learned from
  share_work done_foretold;                 // how long that should take
  share_work done_took;                     // and did
  std::size_t pending = 0;                  // pieces of work in the device
  share_work foretold;                      // how long they take
  share_ns busy_since = 0;                  // the first of it
  share_ns began = 0;                       // the last of it
  share_ns done_at = 0;                     // when the last batch ended
  share_ns pause = 0; // from the device's idleness to the next work, usually
  bool paused = false;
  int looks = 0; // in this turn, at how long work takes exactly
  std::atomic<share_ns> charged = 0; // ever
  share_ns next = -1; // how long the work takes that waits; -1: none waits

  /// Whether what is in the device should long be done.
  bool overdue(share_ns now) const {
    return pending != 0 && now - std::max(began, done_at) >
                               overdue_after + overdue_factor * foretold.held;
  }

  /// Whether enough is in the device until it tells that some of it is done.
  /// What was foretold may be wrong, and work in the device cannot be taken
  /// back.
  bool crowded(const share_table& table, share_ns now) const {
    if (pending == 0)
      return false;
    if (policy::together(table))
      return pending >= most_pending_together ||
             foretold.held > table.rules.quantum / part_of_quantum_together;
    return pending >= most_pending ||
           now - std::max(busy_since, done_at) > table.rules.quantum;
  }

  /// How long it takes; nothing: it was never seen.
  std::optional<share_work> foretell(work_key what) const {
    auto i = takes.find(what);
    if (i == takes.end())
      return {};
    auto worked = static_cast<share_ns>(i->second.worked);
    if (is_marked_long(what))
      if (auto least = board->copy_takes(what); least != 0)
        worked = least;
    return share_work{static_cast<share_ns>(i->second.held), worked};
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
    return looks < most_looks && is_inexact(what, table.partings);
  }

  /// Whether what is left of its turn is enough. Ends it where it is not, and
  /// nothing is left in the device.
  bool has_turn_for(share_table& table, share_ns now,
                    std::optional<share_ns> length) {
    auto fresh = pending == 0 && policy::is_fresh(table, seat);
    auto fits = [&] {
      auto left = policy::left_of_turn(table, now) - foretold.held;
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

  /// Whether the device is to be watched at work of this kind: once between two
  /// times that sessions have it together, as it may change. What takes long is
  /// known well enough.
  bool is_inexact(work_key what, std::uint32_t now) const {
    auto i = takes.find(what);
    if (times == nullptr || i == takes.end())
      return false;
    const auto& x = i->second;
    auto enough = x.exact_since == now && x.looked >= looks_at(what);
    return !enough && (is_marked_long(what) || x.held < long_enough);
  }

  /// What it was made to begin later has had its place for longer.
  void look_exactly(const batch& of, const share_work& took) {
    auto what = of.what.front();
    auto i = takes.find(what);
    if (i == takes.end() || took.worked < worth_telling)
      return;
    auto& x = i->second;
    auto again = std::exchange(x.exact_since, of.partings) == of.partings;
    x.looked = again ? x.looked + 1 : 1;
    if (is_marked_long(what))
      board->note_copy(what, static_cast<std::uint32_t>(std::min<share_ns>(
                                 took.worked, longest_copy)));
    else
      x.worked = std::max(static_cast<double>(took.worked) /
                              static_cast<double>(of.what.size()),
                          least_exact_length);
  }

  void note_done(const batch& of, const share_work& took) {
    if (of.learning) {
      if (takes.size() > most_kinds)
        takes.clear();
      takes[of.what.front()] = {
          std::max(static_cast<double>(took.held), least_length),
          std::max(static_cast<double>(took.worked), least_length)};
      return;
    }
    if (of.exact)
      return look_exactly(of, took);
    done_since.insert(done_since.end(), of.what.begin(), of.what.end());
    done_foretold += of.foretold;
    done_took += took;
    auto idle =
        pending == 0 && std::max(done_took.held, done_foretold.held) >= told_by;
    if (idle || done_since.size() >= most_pending)
      learn();
  }

  /// From all that was done while the device was busy, not from each batch: on
  /// a busy host several ends are told at once, and who looked at each by
  /// itself would see one batch that took the time of all and many that took
  /// none.
  void learn() {
    auto held = ratio_of(done_took.held, done_foretold.held);
    auto worked = ratio_of(done_took.worked, done_foretold.worked);
    std::sort(done_since.begin(), done_since.end());
    auto end = std::unique(done_since.begin(), done_since.end());
    for (auto key = done_since.begin(); key != end; ++key)
      if (auto i = takes.find(*key); i != takes.end())
        i->second.correct(held, worked);
    done_since.clear();
    done_foretold = done_took = {};
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
      done_at = now;
      pending -= of.what.size();
      foretold.held -= of.foretold.held;
      foretold.worked -= of.foretold.worked;
      board->locked([&](share_table& table) {
        alone = !policy::together(table) && table.draining == 0;
        policy::set_brought(table, seat, foretold.worked);
        used = policy::charge(table, seat, of.foretold, took, now);
        settle(table, now);
        if (table.holder == share_table::nobody && table.waiting != 0)
          outcome = policy::arbitrate(table, now);
        // Who waits for room hears of it.
        room = next >= 0 && pending <= few_pending &&
               (table.holder == seat || policy::together(table));
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
                          : left <= 0 || pause > table.rules.idle_after;
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
      account_(std::make_shared<account>()) {
  account_->board = std::move(board);
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
  if (now - open_->began > long_batch || !open_->takes_in(what)) {
    look_at_batch(true);
    return false;
  }
  auto& of = *account_;
  std::lock_guard guard{of.lock};
  auto known = of.foretell(what);
  if (!known)
    return false;
  add(what, *known, now);
  return true;
}

/// With the account's lock.
void share_gate::add(work_key what, const share_work& length, share_ns now) {
  auto& of = *account_;
  open_->what.push_back(what);
  open_->foretold += length;
  of.foretold += length;
  of.began = now;
  ++of.pending;
  unmarked_ = true;
}

bool share_gate::take_turn(work_key what) {
  auto& of = *account_;
  if (goes_along(what, of.clock()))
    return true;
  policy::share_outcome outcome;
  auto may = false;
  auto counted = false; // what it takes the device
  {
    std::lock_guard guard{of.lock};
    auto now = of.clock();
    of.note_pause(now);
    auto known = of.foretell(what);
    auto length = known.value_or(share_work{});
    auto looks = false;
    auto partings = std::uint32_t{0};
    rings_ = board_->rings(seat_);
    board_->locked([&](share_table& table) {
      if (!known && policy::together(table))
        policy::part(table);
      policy::set_copies(table, seat_, is_marked_long(what));
      auto verdict = of.may_begin(
          table, now, known ? std::optional{known->held} : std::nullopt);
      looks = of.would_look(table, what);
      if (looks && of.pending != 0 && verdict == account::verdict::begins)
        verdict = account::verdict::no_room; // until it can be watched
      if (verdict == account::verdict::no_turn) {
        policy::want(table, seat_, now);
        outcome = policy::arbitrate(table, now);
        look_again_ = outcome.look_again;
        may = outcome.granted == seat_ || outcome.lets_in(seat_);
      } else {
        may = verdict == account::verdict::begins;
        look_again_ = now + table.rules.stalled_after;
      }
      if (may) {
        policy::want_nothing(table, seat_);
        policy::begin_work(table, seat_, now);
        policy::set_brought(table, seat_, of.foretold.worked + length.worked);
        looks = of.would_look(table, what);
        counted = !policy::together(table);
        partings = table.partings;
      }
    });
    of.next = may ? -1 : length.held;
    if (may)
      begin_batch(what, length, now, known.has_value());
    if (may && looks && of.pending == 1) {
      open_->exact = true;
      open_->partings = partings;
      ++of.looks;
      if (!open_->is_single())
        of.times->delay();
    }
  }
  if (outcome.granted != seat_)
    board_->tell(outcome);
  if (of.times != nullptr)
    of.times->time(counted ? device::timed_for::turns
                           : device::timed_for::nobody);
  // Its end must be asked for, or room never comes.
  if (!may)
    rest();
  return may;
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
  if (!all && !open_->is_single() && open_->foretold.held < long_batch &&
      open_->what.size() < large_batch)
    return;
  unmarked_ = false;
  device_.when_done(std::nullopt,
                    [of = account_, what = std::exchange(open_, nullptr)](
                        CUresult how) { of->done(*what, how); });
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
