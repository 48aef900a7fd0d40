#include "actors/compute/work_lengths.hpp"

#include "actors/compute/call_traffic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace vgpu {

using policy::share_ns;
using policy::share_work;

namespace {

/// Gives the shortest prediction, in ns.
constexpr double least_length = 1'000;
/// Gives the shortest prediction for work at which the device was watched, in
/// ns.
constexpr double least_exact_length = 100;
/// Gives the length of work, in ns, from which the host's time between two
/// pieces does not matter.
constexpr double long_enough = 100'000;
/// Gives the length of work, in ns, below which the records of two events cost
/// too much.
constexpr share_ns worth_telling = 5'000;
constexpr share_ns longest_copy = 1'000'000'000;
/// Gives the largest factor by which one measurement corrects a prediction.
constexpr double largest_error = 4;
/// Gives the number of corrections below which a prediction may be far off.
constexpr unsigned few_times = 3;
/// Gives the length in ns below which a measurement says little, because clocks
/// and the threads that read them are not exact.
constexpr share_ns least_measured = 500'000;
/// Gives the number of pieces after which learn() runs.
constexpr std::size_t most_done = 512;
/// Gives the number of kinds above which all are forgotten.
constexpr std::size_t most_kinds = 4096;

work_key mixed(std::uint64_t a, std::uint64_t b) {
  auto x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 31);
}

double ratio_of(share_ns took, share_ns predicted) {
  return static_cast<double>(took) /
         static_cast<double>(std::max<share_ns>(predicted, 1));
}

/// Returns the factor that corrects a prediction. The first few measurements
/// count in full, since the first one may have been anything. Later ones count
/// by their square root, which treats both directions alike.
double correction(double ratio, unsigned times) {
  if (times < few_times)
    return ratio;
  return std::sqrt(std::clamp(ratio, 1 / largest_error, largest_error));
}

/// Copies of about the same size take about the same time. A long copy is worth
/// the records of two events, so its key carries this mark.
constexpr work_key marked_long = work_key{1} << 63;
/// Says how often the device is watched at work of a kind. The shortest time
/// counts, because other activity can only lengthen it.
constexpr int looks_at(work_key x) {
  return (x & marked_long) != 0 ? 4 : 3;
}

template <class Call>
work_key copy_key(const Call& x) {
  auto rows = x.size.height * x.size.depth;
  auto key = mixed(static_cast<std::uint64_t>(Call::id),
                   std::bit_width(x.size.width * rows) * 64u +
                       static_cast<unsigned>(std::bit_width(rows)));
  return is_long_copy(x) ? key | marked_long : key & ~marked_long;
}

} // namespace

bool is_timed_alone(work_key x) noexcept {
  return (x & marked_long) != 0;
}

work_key key_of(const call::launch& x) {
  auto blocks = std::uint64_t{x.grid.x} * x.grid.y * x.grid.z;
  return mixed(mixed(x.module.id.value, x.kernel), blocks) & ~marked_long;
}
work_key key_of(const call::write& x) {
  return copy_key(x);
}
work_key key_of(const call::late_write& x) {
  return copy_key(x);
}
work_key key_of(const call::read& x) {
  return copy_key(x);
}
work_key key_of(const call::read_host& x) {
  return copy_key(x);
}
work_key key_of(const call::copy& x) {
  return copy_key(x);
}
work_key key_of(const call::fill& x) {
  return copy_key(x);
}

std::optional<share_work> work_lengths::predict(work_key what) const {
  auto i = takes_.find(what);
  if (i == takes_.end())
    return {};
  auto worked = static_cast<share_ns>(i->second.worked);
  if (is_timed_alone(what))
    if (auto least = board_->copy_takes(what); least != 0)
      worked = least;
  return share_work{static_cast<share_ns>(i->second.held), worked};
}

bool work_lengths::is_inexact(work_key what, std::uint32_t partings) const {
  auto i = takes_.find(what);
  if (i == takes_.end())
    return false;
  const auto& x = i->second;
  auto enough = x.watched_in == partings && x.watched >= looks_at(what);
  return !enough && (is_timed_alone(what) || x.held < long_enough);
}

void work_lengths::give_up(work_key what, std::uint32_t partings) {
  if (auto i = takes_.find(what); i != takes_.end()) {
    i->second.watched_in = partings;
    i->second.watched = looks_at(what);
  }
}

void work_lengths::saw_first(work_key what, const share_work& took) {
  if (takes_.size() > most_kinds)
    takes_.clear();
  takes_[what] = {std::max(static_cast<double>(took.held), least_length),
                  std::max(static_cast<double>(took.worked), least_length)};
}

void work_lengths::saw_exactly(work_key what, std::size_t pieces,
                               share_ns worked, std::uint32_t partings) {
  auto i = takes_.find(what);
  if (i == takes_.end() || worked < worth_telling)
    return;
  auto& x = i->second;
  auto again = std::exchange(x.watched_in, partings) == partings;
  x.watched = again ? x.watched + 1 : 1;
  x.exact = true;
  if (is_timed_alone(what)) {
    board_->note_copy(
        what, static_cast<std::uint32_t>(std::min(worked, longest_copy)));
    return;
  }
  auto each =
      std::max(static_cast<double>(worked) / static_cast<double>(pieces),
               least_exact_length);
  x.worked = again ? std::min(x.worked, each) : each;
}

void work_lengths::saw(const std::vector<work_key>& what,
                       const share_work& predicted, const share_work& took,
                       bool idle) {
  done_since_.insert(done_since_.end(), what.begin(), what.end());
  done_predicted_.held += predicted.held;
  done_predicted_.worked += predicted.worked;
  done_took_.held += took.held;
  done_took_.worked += took.worked;
  auto is_long_enough =
      std::max(done_took_.held, done_predicted_.held) >= least_measured;
  if ((idle && is_long_enough) || done_since_.size() >= most_done)
    learn();
}

/// Learns from everything that was done while the device was busy, and not from
/// each batch. On a busy host several completions arrive at once; taken one by
/// one, one batch would seem to take the time of all and the others none.
void work_lengths::learn() {
  auto held = ratio_of(done_took_.held, done_predicted_.held);
  auto worked = ratio_of(done_took_.worked, done_predicted_.worked);
  std::ranges::sort(done_since_);
  done_since_.erase(std::unique(done_since_.begin(), done_since_.end()),
                    done_since_.end());
  for (auto what : done_since_)
    if (auto i = takes_.find(what); i != takes_.end())
      i->second.correct(held, worked);
  done_since_.clear();
  done_predicted_ = done_took_ = {};
}

void work_lengths::kind::correct(double held_ratio, double worked_ratio) {
  held = std::max(held * correction(held_ratio, corrected), least_length);
  if (!exact)
    worked =
        std::max(worked * correction(worked_ratio, corrected), least_length);
  ++corrected;
}

} // namespace vgpu
