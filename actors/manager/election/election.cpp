#include "actors/manager/election/election.hpp"

#include "actors/link/log.hpp"

#include <algorithm>

namespace vgpu {

using std::chrono::milliseconds;

namespace {

/// Gives the part of its lease that a leader leaves unused, for the difference
/// between two clocks and for work that it has begun.
constexpr int margin_part = 10;
/// Gives the patience for an answer. Then the question is repeated, perhaps to
/// another member, several times before the lease ends.
constexpr int patience_part = 5;
constexpr milliseconds longest_patience{2'000};
constexpr int renewals = 4; // in the length of a lease
constexpr milliseconds resign_within{1'000};

} // namespace

election::election(election_options options, asker ask, time_point now)
    : options_(std::move(options)), ask_(std::move(ask)), next_(now),
      length_(options_.lease) {}

milliseconds election::patience() const noexcept {
  return std::min(milliseconds{length_} / patience_part, longest_patience);
}

// -- questions ----------------------------------------------------------------

void election::ask(etcd::question what, time_point now) {
  pending_ = pending{++last_number_, now, now + patience()};
  ask_(last_number_, std::move(what), patience());
}

/// Asks the next question, when none is under way and it is time.
void election::ask_next(time_point now) {
  switch (stage_) {
  case stage::watching:
  case stage::resigning:
    // This comes first: while the former lease may hold the key, nobody else
    // can lead.
    if (former_ != 0)
      return ask(etcd::revoke{former_}, now);
    if (stage_ == stage::resigning) {
      stage_ = stage::over;
      return;
    }
    return ask(etcd::look{}, now);
  case stage::granting:
    return ask(etcd::grant{options_.lease}, now);
  case stage::taking:
    return take_lead(now);
  case stage::leading:
    // A record can wait. Otherwise one that etcd refuses would cost the lead.
    if (!to_keep_ || now >= renew_at_)
      return ask(etcd::renew{lease_}, now);
    proposed_ = *to_keep_;
    return ask(etcd::keep{lease_, proposed_}, now);
  case stage::over:
    return;
  }
}

void election::take_lead(time_point now) {
  auto known = options_.known();
  proposed_ = last_seen_.kept;
  proposed_.term = std::max(latest_term_, known.term) + 1;
  proposed_.numbers =
      std::max(proposed_.numbers, known.numbers) + numbers_at_a_time;
  ask(etcd::take{lease_,
                 {options_.endpoint, proposed_.term},
                 proposed_,
                 last_seen_.revision},
      now);
}

void election::pause(time_point now) {
  next_ = now + options_.look_every;
}

// -- time ---------------------------------------------------------------------

time_point election::next_deadline() const noexcept {
  if (stage_ == stage::over)
    return time_point::max();
  auto out = pending_ ? pending_->due : next_;
  if (stage_ == stage::leading)
    out = std::min(out, until_);
  if (stage_ == stage::resigning)
    out = std::min(out, over_by_);
  return out;
}

void election::on_time(time_point now) {
  if (stage_ == stage::leading && now >= until_)
    lose("its lease may be over", now);
  if (stage_ == stage::resigning && now >= over_by_) {
    spdlog::warn(
        "etcd does not know that this manager leads no more: its lease "
        "must end by itself");
    stage_ = stage::over;
    pending_.reset();
  }
  if (pending_ && now >= pending_->due) {
    pending_.reset();
    handle(etcd::failed{"no answer in time"}, now, now);
  }
  if (!pending_ && now >= next_)
    ask_next(now);
}

/// Counts the lease from when it was requested, never later.
void election::valid_from(time_point sent) {
  until_ = sent + milliseconds{length_} - milliseconds{length_} / margin_part;
  renew_at_ = sent + milliseconds{length_} / renewals;
}

void election::go_on_leading(time_point now) {
  next_ = to_keep_ ? now : renew_at_;
}

void election::lose(const std::string& why, time_point now) {
  spdlog::warn("this manager leads no more: {}", why);
  stage_ = stage::watching;
  former_ = std::exchange(lease_, 0);
  leader_.reset();
  to_keep_.reset();
  pending_.reset();
  next_ = now;
}

void election::keep(etcd::record what, time_point now) {
  what.term = right_.term;
  if (stage_ != stage::leading || to_keep_ == what)
    return;
  to_keep_ = std::move(what);
  next_ = std::min(next_, now);
}

void election::resign(time_point now) {
  if (stage_ == stage::resigning || stage_ == stage::over)
    return;
  stage_ = stage::resigning;
  if (lease_ != 0)
    former_ = std::exchange(lease_, 0);
  leader_.reset();
  pending_.reset();
  over_by_ = now + resign_within;
  next_ = now;
  on_time(now);
}

// -- answers ------------------------------------------------------------------

void election::on_answer(const etcd_answer& x, time_point now) {
  if (pending_ && pending_->number == x.number) {
    auto sent = pending_->sent;
    pending_.reset();
    if (!std::holds_alternative<etcd::failed>(x.what))
      failure_reported_ = false;
    std::visit([&](const auto& y) { handle(y, sent, now); }, x.what);
  }
  // A late grant counts from when it was requested, so it may be over.
  on_time(now);
}

void election::handle(const etcd::seen& x, time_point, time_point now) {
  last_seen_ = x;
  leader_ = x.who;
  latest_term_ = std::max({latest_term_, x.kept.term, x.who ? x.who->term : 0});
  pause(now);
  if (stage_ != stage::watching || x.who)
    return;
  stage_ = stage::granting;
  next_ = now;
}

void election::handle(const etcd::granted& x, time_point sent, time_point now) {
  lease_ = x.lease;
  length_ = x.length;
  if (stage_ != stage::granting)
    return;
  valid_from(sent);
  stage_ = stage::taking;
  next_ = now;
}

void election::handle(const etcd::taken& x, time_point, time_point now) {
  if (stage_ != stage::taking)
    return;
  if (!x.mine || now >= until_) {
    // Another manager was faster, or this one was so slow that the key may be
    // another's by now.
    stage_ = stage::watching;
    former_ = std::exchange(lease_, 0);
    next_ = now;
    return;
  }
  stage_ = stage::leading;
  latest_term_ = proposed_.term;
  right_ = {proposed_.term, proposed_.numbers - numbers_at_a_time, proposed_};
  leader_ = etcd::leader{options_.endpoint, proposed_.term};
  spdlog::info("this manager leads, term {}", right_.term);
  go_on_leading(now);
}

void election::handle(const etcd::renewed& x, time_point sent, time_point now) {
  if (stage_ != stage::leading)
    return;
  if (x.length.count() <= 0)
    return lose("etcd says that its lease is over", now);
  length_ = x.length;
  valid_from(sent);
  go_on_leading(now);
}

void election::handle(const etcd::kept& x, time_point, time_point now) {
  if (stage_ != stage::leading)
    return;
  if (!x.mine)
    return lose("another holds the key", now);
  right_.kept = proposed_;
  if (to_keep_ == proposed_)
    to_keep_.reset();
  go_on_leading(now);
}

void election::handle(const etcd::revoked&, time_point, time_point now) {
  former_ = 0;
  next_ = now;
}

void election::handle(const etcd::failed& x, time_point, time_point now) {
  if (!std::exchange(failure_reported_, true))
    spdlog::warn("etcd: {}", x.why);
  pause(now);
  if (stage_ == stage::granting) {
    stage_ = stage::watching;
  } else if (stage_ == stage::taking) {
    // It may have been done, so the lease is revoked before another try.
    stage_ = stage::watching;
    former_ = std::exchange(lease_, 0);
  }
}

} // namespace vgpu
