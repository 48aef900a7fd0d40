// Whose turn it is on a pGPU, and for how long: compute shares as turns of
// device time.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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
  /// The highest priority that has work, but nobody waits for longer than
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
  /// How long a turn lasts while somebody else waits.
  share_ns quantum = 20'000'000;
  /// How many have a turn at a time. 1 where the device does one session's work
  /// at a time. A device that does several sessions' work at once stands idle
  /// for part of every turn that one has for itself (a kernel's last blocks, a
  /// wake-up, work that fills half of it): there all run together, and who is
  /// ahead of what it was promised waits for the others.
  std::uint32_t at_once = 1;
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
  std::uint32_t wants = 0; // has work that waits for a turn
  std::uint32_t holds = 0; // has a turn
  std::uint32_t works = 0; // has work in the device
  share_ns wants_since = 0;
  double weight = 0; // of all seats' weights, which add up to 1 at most
  /// What it would use of the device if it were alone, and what it can have
  /// beside those who use it now: its weight, less what it cannot use, more
  /// what others cannot.
  double demand = 1;
  double part = 0;
  std::uint32_t little = 0; // it cannot use its weight
  std::uint32_t more = 0;   // it was idle last although it had work at hand
  double virtual_time = 0;  // device time over part, ns
  double credit = 0;        // ns left under its limit
  share_ns credited_at = 0; // when that was right
  std::uint64_t used = 0;   // ns of device time, ever
  std::uint64_t turns = 0;  // ever

  // The turn:
  share_ns began = 0;
  share_ns budget = 0;           // its length
  std::uint64_t used_before = 0; // when it began
  share_ns idle_since = 0;       // it has no work in the device; 0: it has
  share_ns charged_at = 0;       // last, or its first work
  double clocked = 0;            // what the table's clock showed then
};

inline constexpr std::size_t most_seats = 128;
using seat_set = std::bitset<most_seats>;

/// A pGPU's seats and the turns. Plain data without addresses. Every function
/// is told the time, and the caller excludes others.
struct share_table {
  static constexpr std::int32_t nobody = -1;

  share_rules rules;
  std::array<share_seat, most_seats> seats{};
  double virtual_now = 0;
  std::uint32_t holders = 0;   // how many have a turn,
  std::uint32_t waiting = 0;   // want one,
  std::uint32_t working = 0;   // have work in the device
  std::uint32_t lately_us = 0; // how long turns lasted lately
  share_ns turn_at = 0;        // when one began last
  share_ns parted_at = 0;      // when parts were right
  /// Runs slower the more have work in the device: by it, each of them is
  /// served for the same part of the time.
  double clock = 0;
  share_ns clock_at = 0;
};

// -- seats --------------------------------------------------------------------

/// Takes a free seat; nobody when there is none. A newcomer begins where the
/// others are.
std::int32_t sit(share_table& table, const share_claim& claim, share_ns now);
/// Frees the seat, and its turn with it.
void stand(share_table& table, std::int32_t seat, share_ns now);
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
/// How much device time more the turn of one who has one may take: where it is
/// the only one, until it ends.
share_ns left_of_turn(const share_table& table, std::int32_t seat,
                      share_ns now);

/// Who has a turn brings work to the device. Where it is the only one and
/// others wait, what it left the device idle in its turn counts as used: else
/// whoever keeps the device half idle would have it for twice as long.
void begin_work(share_table& table, std::int32_t seat, share_ns now);
/// The device has nothing of the seat's to do any more. `more`: there is work
/// at hand, and it is not for lack of it.
void end_work(share_table& table, std::int32_t seat, share_ns now,
              bool more = false);

/// What the device did for a seat since it was told last.
struct share_use {
  /// For so long it had work of the seat's.
  share_ns present = 0;
  /// So much of all that it can do it did for the seat in this time, and would
  /// have done if nobody had been in the way. Negative: it cannot tell; then
  /// who have work in it at the same time are taken to be served alike.
  share_ns worked = -1;
  share_ns wanted = -1;
};
/// Charges that to the seat, whoever has a turn, before end_work(). Returns the
/// device time that counts against its turn and its limit.
share_ns charge(share_table& table, std::int32_t seat, const share_use& use,
                share_ns now);

/// Whether the holder may go on after its turn's end: nobody else can have one
/// in its place or is owed more, and it is within its limit. Then a new turn
/// has begun.
bool renew(share_table& table, std::int32_t seat, share_ns now);
/// Ends the seat's turn, if it has one.
void end_turn(share_table& table, std::int32_t seat);

struct share_outcome {
  /// Whose turns have begun just now: they must be told.
  seat_set granted{};
  /// When to call again at the latest, if nothing is heard until then.
  share_ns look_again = 0;
};

/// Takes back turns that are not used, and gives turns to who may have one. To
/// be called when a turn has ended, by who waits for one, when something
/// changed, and where several have turns when something was charged.
share_outcome arbitrate(share_table& table, share_ns now);

// -- in the long run ----------------------------------------------------------

struct share_user {
  share_claim claim{};
  /// What it would use if it were alone, in [0, 1]; 0: it has no work now.
  double wants = 1;
};

/// What each gets of the device's time, as a part of it, where all go on as
/// they do: what turns come to when one does not look at each. Under `priority`
/// without the turn each second of those who would starve.
std::vector<double> grants_of(share_policy policy,
                              std::span<const share_user> users);

} // namespace vgpu::policy
