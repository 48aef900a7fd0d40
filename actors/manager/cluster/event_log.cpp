#include "actors/manager/cluster/event_log.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

const control::event& event_log::add(control::event what) {
  what.number = ++last_;
  kept_.push_back(std::move(what));
  if (kept_.size() > capacity)
    kept_.pop_front();
  return kept_.back();
}

void event_log::restore(std::deque<control::event> kept) {
  kept_ = std::move(kept);
  while (kept_.size() > capacity)
    kept_.pop_front();
  last_ = served_ = kept_.empty() ? 0 : kept_.back().number;
}

namespace {

bool is_for(const std::optional<std::string>& only, const control::event& x) {
  return !only || x.tenant == *only;
}

} // namespace

std::vector<control::event>
event_log::after(std::uint64_t after,
                 const std::optional<std::string>& only) const {
  auto first = std::upper_bound(kept_.begin(), kept_.end(), after,
                                [](std::uint64_t number, const auto& event) {
                                  return number < event.number;
                                });
  std::vector<control::event> out;
  for (; first != kept_.end() && out.size() < most_at_once; ++first)
    if (is_for(only, *first))
      out.push_back(*first);
  return out;
}

bool event_log::wait(waiter who) {
  if (waiting_.size() >= most_waiting)
    return false;
  waiting_.push_back(std::move(who));
  return true;
}

std::vector<event_log::waiter> event_log::take_served(policy::time_point now) {
  std::vector<waiter> out;
  auto fresh = after(std::exchange(served_, last_), std::nullopt);
  std::erase_if(waiting_, [&](waiter& x) {
    auto has_come = std::ranges::any_of(fresh, [&](const auto& event) {
      return event.number > x.after && is_for(x.only, event);
    });
    if (!has_come && now < x.until)
      return false;
    out.push_back(std::move(x));
    return true;
  });
  return out;
}

void event_log::drop(const std::string& peer) {
  std::erase_if(waiting_, [&](const waiter& x) { return x.peer == peer; });
}

std::optional<policy::time_point> event_log::next_deadline() const {
  std::optional<policy::time_point> out;
  for (const auto& x : waiting_)
    if (!out || x.until < *out)
      out = x.until;
  return out;
}

} // namespace vgpu
