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
  if (i->second.order != preparation_of(order)) {
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

void prepared_workers::drop_all(const std::string& why) {
  for (const auto& [id, x] : waiting_)
    if (!x.ready)
      tell_({id, why});
  drop_all();
}

void prepared_workers::on_ready(const control::worker_prepared& x,
                                time_point until) {
  auto i = waiting_.find(x.session);
  if (i == waiting_.end() || i->second.ready)
    return;
  i->second.ready = true;
  i->second.due = until;
  tell_(x);
  if (!x.failure.empty())
    drop(x.session);
}

bool prepared_workers::on_started(const child_started& x) {
  auto i = find(x.tag);
  if (i == waiting_.end())
    return false;
  i->second.pid = x.pid;
  if (!x.failure.empty()) {
    tell_({i->first, x.failure});
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
    tell_({session, "its worker ended at once: " + gone.how});
  waiting_.erase(i);
  return session;
}

void prepared_workers::on_time(time_point now) {
  for (auto i = waiting_.begin(); i != waiting_.end();) {
    auto& [id, x] = *i++;
    if (now < x.due)
      continue;
    if (!x.ready)
      tell_({id, "its worker does not come up in time"});
    drop(id);
  }
}

prepared_workers::by_session::iterator
prepared_workers::find(std::uint64_t tag) {
  return std::find_if(waiting_.begin(), waiting_.end(),
                      [tag](const auto& x) { return x.second.tag == tag; });
}

} // namespace vgpu
