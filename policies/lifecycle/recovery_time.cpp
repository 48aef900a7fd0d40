#include "policies/lifecycle/recovery_time.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace vgpu::policy {

namespace {

using namespace std::chrono_literals;

/// Limits the calls from which the cost of one is learned, so that it follows
/// the program.
constexpr double calls_remembered = 200'000;
/// Bounds the cost of a call. A pause of the worker's host is no cost of calls.
constexpr double cheapest_call_ns = 200;
constexpr double dearest_call_ns = 200'000;
/// Bounds what is learned from replays.
constexpr double least_factor = 0.25;
constexpr double most_factor = 8;
/// Gives the shortest replay from which something is learned.
constexpr duration telling_replay = 100ms;

/// Gives the bytes of a state that are copied or restored in a second at least.
constexpr double state_speed = 2e9;
/// Gives the part of a snapshot's time that it costs while the session runs,
/// besides the processors: the copies use memory and links that the session
/// uses, too.
constexpr double beside = 0.02;
/// Says how many times longer than at state_speed the copies of a snapshot take
/// at most. The rest of its time it waits for others, which costs nothing.
constexpr int slowest_copies = 10;
/// Gives the least part of the promised time that is left for the replay, where
/// restoring the state takes the rest.
constexpr double least_replay = 0.25;
/// Says at which part of that a snapshot is taken: the account comes only
/// several times a second, and a snapshot takes time.
constexpr double taken_at = 0.75;
/// Says by how much an estimate may exceed the promise before anybody is told.
constexpr double slack = 1.25;
/// Says by how much a time grows before it is told again.
constexpr double told_again = 1.5;
/// Says how many snapshots in a row must keep the promise before it holds
/// again.
constexpr unsigned kept_to_hold = 3;

/// Gives the least cost of a snapshot.
constexpr duration least_cost = 1ms;
/// Limits the credit that is kept for more than one snapshot.
constexpr double most_ns = 1e9;

duration nanoseconds(double x) {
  return std::chrono::duration_cast<duration>(
      std::chrono::duration<double, std::nano>{x});
}

double count(duration x) {
  return std::chrono::duration<double, std::nano>{x}.count();
}

duration time_for(std::uint64_t bytes) {
  return nanoseconds(static_cast<double>(bytes) / state_speed * 1e9);
}

duration cost_of(const snapshot_effort& x) {
  auto ran = std::max(x.took - x.stood, duration{0});
  auto copied = std::min(ran, slowest_copies * time_for(x.bytes));
  auto delayed = std::clamp(x.delayed, duration{0}, ran);
  return x.stood + delayed + nanoseconds(count(copied) * beside);
}

} // namespace

// -- work ---------------------------------------------------------------------

executed_work& executed_work::operator+=(const executed_work& x) {
  calls += x.calls;
  device += x.device;
  served += x.served;
  return *this;
}

executed_work executed_work::since(const executed_work& x) const {
  return {calls - std::min(calls, x.calls),
          std::max(device - x.device, duration{0}),
          std::max(served - x.served, duration{0})};
}

// -- estimates ----------------------------------------------------------------

void replay_estimate::learn(const executed_work& x) {
  auto calls = static_cast<double>(x.calls);
  if (calls == 0 || x.served <= duration{0})
    return;
  calls_ += calls;
  served_ns_ += std::clamp(count(x.served), calls * cheapest_call_ns,
                           calls * dearest_call_ns);
  if (calls_ > calls_remembered) {
    served_ns_ *= calls_remembered / calls_;
    calls_ = calls_remembered;
  }
}

void replay_estimate::learn_replay(const executed_work& x, duration took) {
  auto expected = plain(x);
  if (std::max(expected, took) < telling_replay || expected <= duration{0})
    return;
  auto found =
      std::clamp(count(took) / count(expected), least_factor, most_factor);
  factor_ = (factor_ + found) / 2;
}

duration replay_estimate::per_call() const {
  return nanoseconds(served_ns_ / calls_);
}

duration replay_estimate::plain(const executed_work& x) const {
  return nanoseconds(static_cast<double>(x.calls) * served_ns_ / calls_) +
         x.device;
}

duration replay_estimate::of(const executed_work& x) const {
  return nanoseconds(count(plain(x)) * factor_);
}

// -- the budget ---------------------------------------------------------------

/// Returns the credit of which no more than `most` is kept.
double snapshot_budget::credit(double most, time_point now) const {
  auto grown = credit_ns_ + part_ * count(std::max(now - since_, duration{0}));
  return std::min(grown, most);
}

void snapshot_budget::allow(double part, time_point now) {
  credit_ns_ = credit(std::max(most_ns, credit_ns_), now);
  if (part <= 0)
    credit_ns_ = std::min(credit_ns_, 0.0);
  since_ = std::max(since_, now);
  part_ = part;
}

void snapshot_budget::spend(duration cost, time_point now) {
  credit_ns_ = credit(std::max(most_ns, count(cost)), now) - count(cost);
  since_ = std::max(since_, now);
}

time_point snapshot_budget::affords(duration cost, time_point now) const {
  auto missing = count(cost) - credit(std::max(most_ns, count(cost)), now);
  if (missing <= 0)
    return now;
  constexpr double endless_ns = 1e17;
  auto wait = part_ <= 0 ? endless_ns : missing / part_;
  return wait >= endless_ns ? time_point::max() : now + nanoseconds(wait) + 1us;
}

// -- what happens -------------------------------------------------------------

executed_work recovery_time::total() const {
  auto out = before_;
  return out += present_;
}

void recovery_time::promise(const recovery_options& options, time_point now) {
  options_ = options;
  budget_.allow(options.cost, now);
}

void recovery_time::note_work(const executed_work& total) {
  replays_.learn(total.since(present_));
  present_ = total;
}

void recovery_time::begin_worker(bool repeats) {
  before_ = repeats ? covered_ : total();
  present_ = {};
  in_next_ = covered_;
}

void recovery_time::note_replay(duration took) {
  replays_.learn_replay(uncovered(), std::max(took - restoring(), duration{0}));
}

void recovery_time::note_snapshot(const snapshot_effort& what, time_point now) {
  auto cost = std::max(cost_of(what), least_cost);
  budget_.spend(cost, now);
  cost_ = cost_ ? (*cost_ + cost) / 2 : cost;
  note_cover(what.bytes);
}

void recovery_time::note_cover(std::uint64_t bytes) {
  kept_ = misses() ? 0 : kept_ + 1;
  covered_ = in_next_;
  covered_at_ = stopped_at_;
  bytes_ = bytes;
  rest_ = duration{0};
  rests_until_ = {};
  trouble_.clear();
}

void recovery_time::note_failure(std::string why, duration stood, duration took,
                                 time_point now) {
  budget_.spend(
      cost_of({.bytes = expected_bytes_, .stood = stood, .took = took}), now);
  rest_ = rest_ == duration{0} ? options_.first_rest
                               : std::min(2 * rest_, options_.longest_rest);
  rests_until_ = now + rest_;
  trouble_ = std::move(why);
}

// -- decisions ----------------------------------------------------------------

/// Returns how long restoring the newest snapshot takes.
duration recovery_time::restoring() const {
  return time_for(bytes_);
}

/// Returns how much of the promised time is left for the replay.
duration recovery_time::replay_within() const {
  auto least = nanoseconds(count(options_.within) * least_replay);
  return std::max(options_.within - restoring(), least);
}

duration recovery_time::expected_cost() const {
  return cost_ ? *cost_
               : std::max(cost_of({.bytes = expected_bytes_,
                                   .took = time_for(expected_bytes_)}),
                          least_cost);
}

duration recovery_time::estimate() const {
  return restoring() + replays_.of(uncovered());
}

time_point recovery_time::due(time_point now) const {
  auto work = uncovered();
  if (work.calls == 0 ||
      count(replays_.of(work)) < count(replay_within()) * taken_at)
    return time_point::max();
  return std::max(rests_until_, budget_.affords(expected_cost(), now));
}

bool recovery_time::misses() const {
  return count(estimate()) > count(options_.within) * slack;
}

recovery_outlook recovery_time::outlook(time_point now) const {
  if (!misses())
    return {};
  recovery_outlook out{
      .holds = false, .within = estimate(), .trouble = trouble_};
  if (!trouble_.empty())
    return out;
  // The time of a replay that each moment adds.
  auto passed = std::max(count(now - covered_at_), 1.0);
  auto rate = count(replays_.of(uncovered())) / passed;
  auto cost = count(expected_cost());
  auto would_cost = cost * rate / count(replay_within());
  if (would_cost <= options_.cost)
    return out;
  out.would_cost = would_cost;
  if (options_.cost > 0)
    out.within = std::max(
        out.within,
        restoring() + nanoseconds(std::min(rate * cost / options_.cost, 1e17)));
  return out;
}

std::optional<recovery_outlook> recovery_time::news(time_point now) {
  auto next = outlook(now);
  if (next.holds && (told_.holds || kept_ < kept_to_hold))
    return std::nullopt;
  auto other = next.holds != told_.holds || next.trouble != told_.trouble ||
               count(next.within) > count(told_.within) * told_again;
  if (!other)
    return std::nullopt;
  told_ = next;
  return next;
}

std::string to_text(const recovery_outlook& x) {
  if (x.holds)
    return "recovers in the promised time";
  auto number = [](double value, double whole_from) {
    char out[32];
    std::snprintf(out, sizeof out, "%.*f", value < whole_from ? 1 : 0, value);
    return std::string{out};
  };
  auto out = "recovers in about " + number(count(x.within) / 1e9, 3) + " s";
  if (!x.trouble.empty())
    return out + ": no snapshot is taken: " + x.trouble;
  if (x.would_cost > 0)
    return out + ": snapshots would cost " + number(x.would_cost * 100, 10) +
           " %";
  return out;
}

} // namespace vgpu::policy
