// Who shares a pGPU's compute, by which rules, and whose turn it is: for how
// long the one has the device that may use it. Where several use it at the same
// time: share_threads.hpp.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vgpu::policy {

/// Nanoseconds, as a point of the monotonic clock or a span. A plain number:
/// what is declared here lies in memory that processes share.
using share_ns = std::int64_t;

enum class share_policy : std::uint32_t {
  /// No turns: the device shares itself among who use it.
  best_effort,
  /// The same for everybody, whatever was asked for.
  equal,
  /// What was asked for and no more, although the device may be idle.
  fixed,
  /// At least what was asked for; what others leave is given away in the same
  /// proportions, up to each one's limit.
  guarantee,
  /// The highest priority that has work, or comes with some: a turn of lower
  /// priority ends then. But nobody waits for longer than
  /// share_rules::starved_after. Of one priority, as `guarantee`.
  priority,
};
inline constexpr std::array<std::string_view, 5> share_policy_names{
    "best-effort", "equal", "fixed", "guarantee", "priority"};
std::optional<share_policy> parse_share_policy(std::string_view name);
constexpr std::string_view name_of(share_policy x) {
  return share_policy_names[static_cast<std::size_t>(x)];
}

struct share_rules {
  share_policy policy = share_policy::guarantee;
  /// How long a turn lasts while somebody else waits. Of threads, what they are
  /// allowed to be ahead by, or to save up, is parts of it.
  share_ns quantum = 20'000'000;
  /// 0: one session at a time has the device, for a turn. Else it is threads
  /// that work for several at once, and are waited for one by one: as many as
  /// the host has processors for it.
  std::uint32_t processors = 0;
  /// Whether turns are given up for as long as sessions get more done together
  /// (share_concurrent.hpp); 0: never.
  std::uint32_t joins = 1;
  /// After so long without a turn, priority counts no more.
  share_ns starved_after = 1'000'000'000;
  /// A turn whose work is done, and more does not come, is taken back after
  /// this,
  share_ns idle_after = 1'000'000;
  /// one that was given to who waited for it, and is not used, after this. Who
  /// waited has work, and wakes up as soon as a busy host lets it: were its
  /// turn given away sooner, it would lose its share to whoever wakes up
  /// faster.
  share_ns unused_after = 250'000'000;
  /// A turn whose work does not end is taken back after this: it may never end,
  /// or wait for what only the next turn can do (kernels of one program on two
  /// devices that wait for each other).
  share_ns stalled_after = 2'000'000'000;
};

/// What was asked for, of one pGPU's compute.
struct share_claim {
  /// In (0, 1]. Less than 1 is a promise; 1 promises nothing and takes an equal
  /// part of what is promised to nobody.
  double share = 1;
  /// In (0, 1]: never more than this, in the long run.
  double limit = 1;
  /// Larger goes first, under share_policy::priority.
  std::int32_t priority = 0;
  std::uint32_t unused = 0;
};

/// One session's place at a pGPU.
struct share_seat {
  share_claim claim{};
  std::uint32_t taken = 0;
  double weight = 0;         // of all seats' weights, which add up to 1 at most
  double virtual_time = 0;   // device time over weight, ns
  double credit = 0;         // ns left under its limit
  share_ns credited_at = 0;  // when that was right
  std::uint32_t spent = 0;   // that was used up, and is not back yet
  std::uint32_t working = 0; // has work in the device
  share_ns heard_at = 0;     // its work began, went on or ended, last
  std::uint64_t used = 0;    // ns of device time, ever
  std::uint64_t turns = 0;   // ever

  // Turns:
  std::uint32_t wants = 0; // has work that waits for one
  std::uint32_t more = 0;  // it was idle last although it had work at hand
  share_ns wants_since = 0;

  // Together (share_concurrent.hpp):
  double predicted = 0; // ns that its latest work was to have a place alone,
  double took = 0;      // and had,
  double awaited = 0;   // in which the host waited for the device
  double brought = 0;   // ns that its work in the device is predicted to take
  std::uint32_t copies = 0; // by engines that kernels do not use
  double turns_took = 0;    // ns of turns, since sessions parted,
  double turns_held = 0;    // and of these its work had a place

  // Threads:
  std::uint32_t running = 0;  // have something to do, and may do it;
  std::uint32_t waiting = 0;  // may not yet;
  std::uint32_t let_in = 0;   // run, and have not heard that they may
  std::uint32_t held = 0;     // has had more than others: makes way for them
  share_ns waits_since = 0;   // all of its threads
  std::uint64_t favoured = 0; // goes first until it has used so much
};

inline constexpr std::size_t most_seats = 128;
using seat_set = std::bitset<most_seats>;

/// A pGPU's seats and the turns. Plain data without addresses. Every function
/// is told the time, and the caller excludes others.
struct share_table {
  static constexpr std::int32_t nobody = -1;

  share_rules rules;
  std::array<share_seat, most_seats> seats{};
  std::uint32_t seated = 0; // all who sit there are before this one
  double virtual_now = 0;

  // Turns:
  std::int32_t holder = nobody;
  std::uint32_t waiting = 0;   // want a turn
  std::uint32_t lately_us = 0; // how long turns lasted lately
  share_ns began = 0;          // the holder's turn
  share_ns until = 0;          // it ends
  share_ns idle_since = 0;     // it has no work in the device; 0: it has

  // Together (share_concurrent.hpp):
  std::uint32_t together = 0;     // who has work brings it
  std::uint32_t draining = 0;     // no more, but of that some is not done yet
  std::uint32_t turns_since = 0;  // since it ended, which it did
  std::uint32_t partings = 0;     // so often
  std::int32_t had_turn = nobody; // whose turn was last
  share_ns tried_at = 0;          // it began, last,
  share_ns try_after = 0;         // and may again so long after that
  share_ns refresh_after = 0;     // turns again, to see what work takes alone
  share_ns since = 0;             // what is measured of it:
  double progress = 0;            // ns that all that was done takes alone,
  double worked = 0;              // and that the device works for that;
  double usual_load = 0;          // a second, when it was first measured
  std::uint32_t slack = 0;        // the device had nothing to do for much of it

  // Threads:
  std::uint32_t running = 0;
  seat_set busy{}; // seats with threads that run or wait
};

// -- seats --------------------------------------------------------------------

/// Takes a free seat; nobody when there is none. A newcomer begins where the
/// others are.
std::int32_t sit(share_table& table, const share_claim& claim, share_ns now);
/// Frees the seat, and with it its turn or what its threads ran on.
void stand(share_table& table, std::int32_t seat);
void set_claim(share_table& table, std::int32_t seat, const share_claim& claim,
               share_ns now);
void set_rules(share_table& table, const share_rules& rules, share_ns now);

/// Whether turns are needed at all: somebody else is there, or somebody is not
/// to have everything.
bool contested(const share_table& table);

// -- turns --------------------------------------------------------------------

/// The seat has work that waits. The first call counts.
void want(share_table& table, std::int32_t seat, share_ns now);
/// It has none any more.
void want_nothing(share_table& table, std::int32_t seat);

bool holds(const share_table& table, std::int32_t seat);
/// Whether it has a turn and has brought no work in it yet.
bool is_fresh(const share_table& table, std::int32_t seat);
/// How long the holder's turn still lasts.
share_ns left_of_turn(const share_table& table, share_ns now);

/// How long work has its session's place in the device, from where it may begin
/// to where its end is noticed, and how long the device works on it meanwhile:
/// the rest is the host's, which brings it. Where only one is known it is both.
struct share_work {
  share_ns held = 0;
  share_ns worked = 0;
  /// For how long the host had nothing to do for its session but to wait for
  /// the device. Seen of what was done, not predicted.
  share_ns awaited = 0;
};

/// The seat brings work to the device. What the holder of a turn left it idle
/// while others waited counts as used: else whoever keeps the device half idle
/// would have it for twice as long.
void begin_work(share_table& table, std::int32_t seat, share_ns now);
/// What the seat brings next is a long copy, for which a device has engines
/// that kernels do not use.
void set_copies(share_table& table, std::int32_t seat, bool copies);
/// The device is predicted to work so long on all that is in it of the seat's.
void set_brought(share_table& table, std::int32_t seat, share_ns predicted);
/// The device has nothing of the seat's to do any more. `more`: there is work
/// at hand, and it is not for lack of it.
void end_work(share_table& table, std::int32_t seat, share_ns now,
              bool more = false);
/// Work of the seat's is done that was predicted to take so long alone, and
/// took so long; what was not predicted is 0. What the device worked is charged
/// or, where sessions' work is in the device together, what was predicted of
/// that. Returns it. Whose turn is next goes by the place: what of it the
/// device did not work was still not the others'.
share_ns charge(share_table& table, std::int32_t seat,
                const share_work& predicted, const share_work& took,
                share_ns now);

/// Whether the holder may go on after its turn's end: nobody else can have one
/// in its place, or only those of lower priority, and it is within its limit.
/// Then a new turn has begun.
bool renew(share_table& table, std::int32_t seat, share_ns now);
/// The same of one that has no work at hand just now, where priority counts.
bool keep(share_table& table, std::int32_t seat, share_ns now);
/// Ends the seat's turn, if it has one.
void end_turn(share_table& table, std::int32_t seat);

struct share_outcome {
  /// Whose turn has begun just now, or nobody's.
  std::int32_t granted = share_table::nobody;
  /// Who waited and may bring work now, without a turn.
  seat_set let_in{};
  bool lets_in(std::int32_t seat) const {
    return let_in.test(static_cast<std::size_t>(seat));
  }
  /// When to call again at the latest, if nothing is heard until then.
  share_ns look_again = 0;
};

/// Takes back a turn that is not used, and gives the next. To be called when a
/// turn has ended, by who waits for one, and when something changed.
share_outcome arbitrate(share_table& table, share_ns now);

} // namespace vgpu::policy
