#include "actors/manager/cluster/outbox.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"
#include "actors/manager/cluster/key_rights.hpp"
#include "actors/manager/cluster/peer_registry.hpp"
#include "actors/records/tenant_quota.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vgpu {

namespace {

constexpr std::size_t longest_kind = 40;
constexpr std::size_t longest_event = 1'024;
constexpr auto longest_wait = std::chrono::minutes{10};

} // namespace

event_subject subject_of(const session_record& x) {
  return {.node = x.where.node,
          .session = x.id,
          .vgpu = x.vgpu,
          .epoch = x.epoch,
          .tenant = tenant_of(x.tenant)};
}

outbox::outbox(sender send, std::function<double()> wall_time,
               manager_clock& clock, const cluster_state& state)
    : send_(std::move(send)), wall_time_(std::move(wall_time)), clock_(clock),
      state_(state) {}

// -- messages -----------------------------------------------------------------

void outbox::answer(const std::string& peer, std::uint64_t request,
                    control::body what) {
  send_(peer, {"manager", request, std::move(what)});
}

void outbox::refuse(const std::string& peer, const control::envelope& what,
                    fault why) {
  if (auto before = refusals_.admits(peer, clock_.now()))
    spdlog::warn("refused {} of '{}': {}{}", control::name_of(what.body),
                 printable(what.from), why.what, note_suppressed(*before));
  answer(peer, what.request,
         control::refusal{cuda_code(why), std::move(why.what), {}});
}

bool outbox::to_node(const std::string& name, control::body what) {
  if (!state_.alive(name))
    return false;
  answer(state_.nodes.at(name).peer, 0, std::move(what));
  return true;
}

// -- events -------------------------------------------------------------------

void outbox::emit(event_kind kind, std::string text, event_subject what) {
  control::event out;
  out.time = wall_time_();
  out.kind = name_of(kind);
  out.text = std::move(text);
  out.node = std::move(what.node);
  out.session = what.session;
  out.vgpu = what.vgpu;
  out.epoch = what.epoch;
  out.bytes = what.bytes;
  out.milliseconds = what.milliseconds;
  out.tenant = what.tenant.empty() ? tenant_of_session(what.session)
                                   : std::move(what.tenant);
  publish(std::move(out));
}

void outbox::publish(control::event what) {
  const auto& kept = events_.add(std::move(what));
  tallies_.add(kept);
  spdlog::info("{}: {}{}", kept.kind,
               kept.session
                   ? "session " + std::to_string(kept.session.value) + ": "
                   : "",
               kept.text);
  if (state_.kept != nullptr)
    state_.kept->save(kept);
  serve_waiters();
}

/// Returns whose the session is; empty: there is none.
std::string outbox::tenant_of_session(session_id id) const {
  auto i = state_.sessions.find(id);
  return i == state_.sessions.end() ? std::string{}
                                    : tenant_of(i->second.tenant);
}

/// Returns whether the peer is a command that may reach the session, the node
/// that the event names, the client of the event's session, or anybody who
/// names neither. The sender's name is the one under which it was welcomed.
bool outbox::may_report(const std::string& peer, const control::envelope& from,
                        const control::event& x) const {
  auto only = confined_to(from);
  if (!only && from.from.starts_with(prefix_of(control::role::command)))
    return true;
  if (auto i = state_.nodes.find(x.node);
      i != state_.nodes.end() && i->second.peer == peer)
    return true;
  if (!x.session)
    return x.node.empty();
  auto i = state_.sessions.find(x.session);
  if (i == state_.sessions.end())
    return false;
  auto commands = from.from.starts_with(prefix_of(control::role::command));
  return i->second.client_peer == peer ||
         (commands && may_reach(from, i->second.tenant));
}

void outbox::handle(const std::string& peer, const control::envelope& from,
                    const control::event& x) {
  if (!may_report(peer, from, x))
    return refuse(peer, from,
                  {fault_kind::refused,
                   "an event of this connection is about its own node or "
                   "sessions, not about session " +
                       std::to_string(x.session.value)});
  auto what = x;
  what.kind.resize(std::min(what.kind.size(), longest_kind));
  what.text.resize(std::min(what.text.size(), longest_event));
  if (what.time == 0)
    what.time = wall_time_();
  what.tenant = tenant_of_session(x.session);
  if (what.tenant.empty())
    what.tenant = proven_tenant(from);
  publish(std::move(what));
  if (from.request != 0)
    answer(peer, from.request, control::done{});
}

void outbox::handle(const std::string& peer, const control::envelope& from,
                    const control::events_request& x) {
  // The number is from before events were lost: begin again.
  auto after = x.after > events_.last() ? 0 : x.after;
  auto until = clock_.now() +
               std::min<policy::duration>(std::chrono::milliseconds{x.wait_ms},
                                          longest_wait);
  auto only = confined_to(from);
  auto now = events_.after(after, only);
  if (!now.empty() || x.wait_ms == 0 ||
      !events_.wait({peer, from.request, after, until, only}))
    answer(peer, from.request, control::events{std::move(now)});
  else
    clock_.due(until);
}

void outbox::serve_waiters() {
  for (auto& x : events_.take_served(clock_.now()))
    answer(x.peer, x.request, control::events{events_.after(x.after, x.only)});
}

void outbox::restore(std::deque<control::event> kept) {
  events_.restore(std::move(kept));
}

std::optional<time_point> outbox::next_deadline() const {
  return events_.next_deadline();
}

} // namespace vgpu
