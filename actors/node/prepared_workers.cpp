#include "actors/node/prepared_workers.hpp"

#include "actors/node/worker_command.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace vgpu {

prepared_workers::prepared_workers(std::shared_ptr<spawner> children,
                                   teller tell)
    : children_(std::move(children)), tell_(std::move(tell)) {}

void prepared_workers::add(prepared_worker x) {
  auto session = x.order.session;
  waiting_.emplace(session, std::move(x));
}

std::optional<prepared_worker>
prepared_workers::take(const control::start_worker& order) {
  auto i = waiting_.find(order.session);
  if (i == waiting_.end())
    return std::nullopt;
  // The worker has opened the devices of its own order.
  if (i->second.order != preparation_of(order) ||
      i->second.has == prepared_worker::objects::newer) {
    drop(order.session);
    return std::nullopt;
  }
  return std::move(waiting_.extract(i).mapped());
}

void prepared_workers::drop(session_id id) {
  auto gone = waiting_.extract(id);
  if (!gone)
    return;
  auto tag = gone.mapped().tag;
  dropped_.emplace(tag, id);
  children_->signal(tag, SIGKILL);
}

void prepared_workers::drop_all() {
  while (!waiting_.empty())
    drop(waiting_.begin()->first);
}

void prepared_workers::drop_movements(const std::string& why) {
  for (auto i = waiting_.begin(); i != waiting_.end();) {
    auto& [id, x] = *i++;
    if (x.purpose != preparation::movement)
      continue;
    if (!x.ready)
      tell(x, why);
    drop(id);
  }
}

void prepared_workers::drop_standby(session_id id, const std::string& why) {
  auto* x = standby_of(id);
  if (x == nullptr)
    return;
  tell(*x, why);
  drop(id);
}

void prepared_workers::replace_standby(session_id id) {
  if (standby_of(id) != nullptr)
    drop(id);
}

void prepared_workers::keep_standby(session_id id, time_point until) {
  if (auto* x = standby_of(id))
    x->due = until;
}

void prepared_workers::note_objects(session_id id,
                                    prepared_worker::objects has) {
  if (auto* x = standby_of(id))
    x->has = has;
}

bool prepared_workers::stands_by(session_id id) const {
  auto i = waiting_.find(id);
  return i != waiting_.end() &&
         i->second.has == prepared_worker::objects::of_snapshot;
}

std::vector<session_id>
prepared_workers::standbys_on(std::uint32_t pgpu) const {
  std::vector<session_id> out;
  for (const auto& [id, x] : waiting_)
    if (x.purpose == preparation::standby &&
        std::ranges::count(x.order.pgpus, pgpu) != 0)
      out.push_back(id);
  return out;
}

std::size_t prepared_workers::standbys() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(waiting_, [](const auto& x) {
        return x.second.purpose == preparation::standby;
      }));
}

void prepared_workers::on_ready(const control::worker_prepared& x,
                                time_point until) {
  auto i = waiting_.find(x.session);
  if (i == waiting_.end() || i->second.ready)
    return;
  i->second.ready = true;
  i->second.due =
      i->second.purpose == preparation::standby ? time_point::max() : until;
  tell_(i->second.purpose, x);
  if (!x.failure.empty())
    drop(x.session);
}

bool prepared_workers::on_started(const child_started& x) {
  auto i = find(x.tag);
  if (i == waiting_.end())
    return false;
  i->second.pid = x.pid;
  if (!x.failure.empty()) {
    tell(i->second, x.failure);
    waiting_.erase(i);
  }
  return true;
}

std::optional<session_id>
prepared_workers::on_exited(const child_exited& gone) {
  if (auto dead = dropped_.extract(gone.tag))
    return dead.mapped();
  auto i = find(gone.tag);
  if (i == waiting_.end())
    return std::nullopt;
  auto session = i->first;
  if (!i->second.ready)
    tell(i->second, "its worker ended at once: " + gone.how);
  else if (i->second.purpose == preparation::standby)
    tell(i->second, "it ended: " + gone.how);
  waiting_.erase(i);
  return session;
}

void prepared_workers::on_time(time_point now) {
  for (auto i = waiting_.begin(); i != waiting_.end();) {
    auto& [id, x] = *i++;
    if (now < x.due)
      continue;
    if (!x.ready)
      tell(x, "its worker does not come up in time");
    drop(id);
  }
}

prepared_worker* prepared_workers::standby_of(session_id id) {
  auto i = waiting_.find(id);
  return i != waiting_.end() && i->second.purpose == preparation::standby
             ? &i->second
             : nullptr;
}

void prepared_workers::tell(const prepared_worker& x,
                            const std::string& failure) const {
  tell_(x.purpose, {x.order.session, failure});
}

prepared_workers::by_session::iterator
prepared_workers::find(std::uint64_t tag) {
  return std::find_if(waiting_.begin(), waiting_.end(),
                      [tag](const auto& x) { return x.second.tag == tag; });
}

} // namespace vgpu
