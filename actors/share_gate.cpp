#include "actors/share_gate.hpp"

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
/// What is foretold follows what was measured so far at once, at most.
constexpr double largest_error = 4;
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

/// Copies of about the same size take about as long.
work_key copy_key(call::number kind, const call::extent& size) {
  auto rows = size.height * size.depth;
  return mixed(static_cast<std::uint64_t>(kind),
               std::bit_width(size.width * rows) * 64u +
                   static_cast<unsigned>(std::bit_width(rows)));
}

} // namespace

work_key key_of(const call::launch& x) {
  auto blocks = std::uint64_t{x.grid.x} * x.grid.y * x.grid.z;
  return mixed(mixed(x.module.id.value, x.kernel), blocks);
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
  share_ns foretold = 0;
  share_ns began = 0;
  bool learning = false; // one thing, never seen before, alone in the device
};

/// What is known of the session's work on this device. Shared with the
/// device's threads, which tell when work is done.
struct share_gate::account {
  std::shared_ptr<share_board> board;
  std::int32_t seat;
  time_source clock;

  std::mutex lock;                            // before the board's
  std::unordered_map<work_key, double> takes; // ns
  std::vector<work_key> done_since;           // it was last learned from
  share_ns done_foretold = 0;                 // how long that should take
  share_ns done_took = 0;                     // and did
  std::size_t pending = 0;                    // pieces of work in the device
  share_ns foretold = 0;                      // how long they take
  share_ns busy_since = 0;                    // the first of it
  share_ns began = 0;                         // the last of it
  share_ns done_at = 0;                       // when the last batch ended
  share_ns pause = 0; // from the device's idleness to the next work, usually
  bool paused = false;
  std::atomic<share_ns> charged = 0; // ever
  share_ns next = -1; // how long the work takes that waits; -1: none waits

  /// Whether what is in the device should long be done.
  bool overdue(share_ns now) const {
    return pending != 0 && now - std::max(began, done_at) >
                               overdue_after + overdue_factor * foretold;
  }

  /// Whether enough is in the device until it tells that some of it is done.
  /// What was foretold may be wrong, and work in the device cannot be taken
  /// back.
  bool crowded(const share_table& table, share_ns now) const {
    if (pending == 0)
      return false;
    if (policy::together(table))
      return pending >= most_pending_together ||
             foretold > table.rules.quantum / part_of_quantum_together;
    return pending >= most_pending ||
           now - std::max(busy_since, done_at) > table.rules.quantum;
  }

  /// How long it takes; nothing: it was never seen.
  std::optional<share_ns> foretell(work_key what) const {
    auto i = takes.find(what);
    if (i == takes.end())
      return {};
    return static_cast<share_ns>(i->second);
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

  /// Whether what is left of its turn is enough. Ends it where it is not, and
  /// nothing is left in the device.
  bool has_turn_for(share_table& table, share_ns now,
                    std::optional<share_ns> length) {
    auto fresh = pending == 0 && policy::is_fresh(table, seat);
    auto fits = [&] {
      auto left = policy::left_of_turn(table, now) - foretold;
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

  void note_done(const batch& of, share_ns took) {
    if (of.learning) {
      if (takes.size() > most_kinds)
        takes.clear();
      takes[of.what.front()] =
          std::max(static_cast<double>(took), least_length);
      return;
    }
    done_since.insert(done_since.end(), of.what.begin(), of.what.end());
    done_foretold += of.foretold;
    done_took += took;
    auto idle = pending == 0 && std::max(done_took, done_foretold) >= told_by;
    if (idle || done_since.size() >= most_pending)
      learn();
  }

  /// From all that was done while the device was busy, not from each batch: on
  /// a busy host several ends are told at once, and who looked at each by
  /// itself would see one batch that took the time of all and many that took
  /// none.
  void learn() {
    auto ratio = static_cast<double>(done_took) /
                 static_cast<double>(std::max<share_ns>(done_foretold, 1));
    // Half of the way, in both directions alike.
    auto factor =
        std::sqrt(std::clamp(ratio, 1 / largest_error, largest_error));
    std::sort(done_since.begin(), done_since.end());
    auto end = std::unique(done_since.begin(), done_since.end());
    for (auto key = done_since.begin(); key != end; ++key)
      if (auto i = takes.find(*key); i != takes.end())
        i->second = std::max(i->second * factor, least_length);
    done_since.clear();
    done_foretold = done_took = 0;
  }

  void done(const batch& of) {
    policy::share_outcome outcome;
    auto room = false;
    auto alone = false;
    auto used = share_ns{0};
    {
      std::lock_guard guard{lock};
      auto now = clock();
      auto took = std::max<share_ns>(now - std::max(of.began, done_at), 0);
      done_at = now;
      pending -= of.what.size();
      foretold -= of.foretold;
      board->locked([&](share_table& table) {
        alone = !policy::together(table) && table.draining == 0;
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
}

bool share_gate::take_turn(work_key what) {
  auto& of = *account_;
  // A batch of pieces with pauses between them would count these.
  if (unmarked_ && of.clock() - open_->began > long_batch)
    look_at_batch(true);
  policy::share_outcome outcome;
  auto may = false;
  {
    std::lock_guard guard{of.lock};
    auto now = of.clock();
    of.note_pause(now);
    auto known = of.foretell(what);
    auto length = known.value_or(0);
    rings_ = board_->rings(seat_);
    board_->locked([&](share_table& table) {
      if (!known && policy::together(table))
        policy::part(table);
      auto verdict = of.may_begin(table, now, known);
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
      }
    });
    of.next = may ? -1 : length;
    if (may) {
      if (!open_) {
        open_ = std::make_shared<batch>();
        open_->began = now;
      }
      if (of.pending == 0) {
        of.busy_since = now;
        open_->learning = !known.has_value();
      }
      open_->what.push_back(what);
      open_->foretold += length;
      of.foretold += length;
      of.began = now;
      ++of.pending;
      unmarked_ = true;
    }
  }
  if (outcome.granted != seat_)
    board_->tell(outcome);
  // Its end must be asked for, or room never comes.
  if (!may)
    rest();
  return may;
}

void share_gate::look_at_batch(bool all) {
  if (!all && !open_->learning && open_->foretold < long_batch &&
      open_->what.size() < large_batch)
    return;
  unmarked_ = false;
  device_.when_done(std::nullopt,
                    [of = account_, what = std::exchange(open_, nullptr)](
                        CUresult) { of->done(*what); });
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
