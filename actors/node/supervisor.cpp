#include "actors/node/supervisor.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"
#include "actors/node/node_status.hpp"
#include "actors/node/node_usage.hpp"
#include "actors/node/supervisor_standbys.hpp"
#include "actors/node/supervisor_workers.hpp"

#include <algorithm>

namespace vgpu {

namespace {

using namespace supervising;
// The functions below would hide the overloads about workers.
using supervising::take;
using stage = supervisor_state::stage;

/// Is the request number of a registration, the only request to the manager.
constexpr std::uint64_t registration = 1;
constexpr std::uint64_t goodbye = 2;
/// Says how long to wait for the manager to acknowledge the goodbye.
constexpr auto goodbye_within = std::chrono::milliseconds{500};

void register_here(self_ptr self) {
  auto& st = self->state;
  control::register_node out{
      st.opts.name, st.opts.host, st.opts.pid, st.opts.pgpus, {}};
  for (const auto& [id, x] : st.workers)
    if (x.stage != stage::stopping)
      out.sessions.push_back({id, x.order.epoch, x.order.vgpu, x.order.pgpus,
                              x.where, x.pid, x.order.share, x.order.limit,
                              x.order.priority});
  out.sandbox = st.opts.sandbox;
  out.insecure_network = st.opts.insecure_network;
  tell_manager(self, std::move(out), registration);
}

/// Registers with a manager that is another one, has given this node up, or was
/// away. It drops the workers that are prepared for movements, because the
/// manager could not cancel them meanwhile and they would wait for long.
void register_anew(self_ptr self) {
  register_here(self);
  self->state.prepared->drop_movements("its node was away from the manager");
}

void finish_stopping(self_ptr self);

// One overload of take() for each message of the manager. Those about workers
// are in supervisor_workers.cpp.

void take(self_ptr self, const control::envelope&,
          const control::set_policy& x) {
  auto& st = self->state;
  if (auto i = st.pgpus.find(x.pgpu); i != st.pgpus.end())
    self->send(i->second, pgpu_rules{x.policy, x.quantum_us});
}

void take(self_ptr self, const control::envelope&,
          const control::inject_fault& x) {
  auto& st = self->state;
  auto pgpu = st.pgpus.find(x.pgpu);
  if (pgpu == st.pgpus.end())
    return;
  for (auto& [id, each] : st.workers)
    for (auto ordinal : each.order.pgpus)
      if (ordinal == x.pgpu && !each.peer.empty())
        tell_worker(self, each.peer, x);
  // Only the program that waits notices a hang.
  if (x.kind != injected_fault::hang)
    self->send(pgpu->second, pgpu_fail{x.kind == injected_fault::ecc
                                           ? control::pgpu_health::quarantined
                                           : control::pgpu_health::lost});
}

// -- the manager --------------------------------------------------------------

void on_registered(self_ptr self) {
  auto& st = self->state;
  st.registered = true;
  spdlog::info("registered with the manager at {}", st.opts.manager_peer);
  if (!std::exchange(st.was_ready, true))
    self->send(st.watcher, supervisor_ready{});
}

void take(self_ptr self, const control::envelope& from,
          const control::refusal& x) {
  auto& st = self->state;
  spdlog::error("the manager refuses: {}", x.reason);
  if (st.was_ready || (from.request != registration && from.request != 0))
    return;
  self->send(st.watcher, supervisor_failed{x.reason});
  // The normal exit reason would leave the linked pGPU actors behind.
  self->quit(caf::exit_reason::user_shutdown);
}

void take(self_ptr self, const control::envelope&, const control::welcome& x) {
  auto& st = self->state;
  st.incarnation = x.incarnation;
  st.beat_every =
      std::chrono::milliseconds{std::clamp(x.beat_every_ms, 10u, 60'000u)};
  register_anew(self);
}

void take(self_ptr self, const control::envelope&, const control::beat_ack& x) {
  auto& st = self->state;
  drop_last_accounts(st, x.number);
  if (x.incarnation != st.incarnation && !st.stopping)
    register_anew(self);
  finish_stopping(self);
}

void take(self_ptr self, const control::envelope& from, const control::done&) {
  if (from.request == registration)
    on_registered(self);
  else if (from.request == goodbye)
    self->state.goodbye_heard = true;
  finish_stopping(self);
}

void take(self_ptr self, const control::envelope&, const control::redirect& x) {
  // It sends a welcome when it leads.
  spdlog::info("the manager stands by; leader: {}", printable(x.leader));
  self->state.registered = false;
}

/// Logs every other message, because a node takes none of them.
template <class T>
void take(self_ptr, const control::envelope& from, const T&) {
  spdlog::warn("the manager sent a {}, which a node does not take",
               control::name_of(from.body));
}

void on_manager(self_ptr self, const control::envelope& in) {
  std::visit([&](const auto& x) { take(self, in, x); }, in.body);
}

void beat(self_ptr self) {
  auto& st = self->state;
  if (!st.registered)
    return;
  control::node_beat out{st.opts.name, ++st.beats, {}, {}};
  for (const auto& [id, x] : st.workers)
    if (x.stage == stage::running && x.load.session) {
      out.sessions.push_back(load_of(x));
      out.sessions.back().standby = st.prepared->stands_by(id);
    }
  out.ended = last_accounts(st);
  tell_manager(self, std::move(out));
}

// -- the end ------------------------------------------------------------------

void begin_stopping(self_ptr self) {
  auto& st = self->state;
  if (std::exchange(st.stopping, true))
    return;
  st.stop_by = self->clock().now() + goodbye_within;
  // The manager gets this first, and looks for other places at once.
  tell_manager(self, control::shutdown{}, goodbye);
  stop_workers(self);
  finish_stopping(self);
}

void finish_stopping(self_ptr self) {
  auto& st = self->state;
  if (!st.stopping || has_workers(st))
    return;
  auto told = st.goodbye_heard && st.ended.empty();
  if (st.connected && !told && self->clock().now() < st.stop_by)
    return;
  self->quit(caf::exit_reason::user_shutdown);
}

} // namespace

supervisor_actor::behavior_type
supervisor(self_ptr self, supervisor_options options, link_actor manager_link,
           link_actor worker_link, std::shared_ptr<spawner> children,
           supervisor_watcher watcher) {
  auto& st = self->state;
  st.opts = std::move(options);
  st.manager_link = std::move(manager_link);
  st.worker_link = std::move(worker_link);
  st.prepared.emplace(children, [self](auto purpose, auto x) {
    if (purpose == preparation::standby)
      tell_of_standby(self, std::move(x));
    else
      tell_manager(self, std::move(x));
  });
  st.children = std::move(children);
  st.watcher = std::move(watcher);
  for (const auto& each : st.opts.pgpus)
    st.pgpus[each.ordinal] =
        self->spawn<caf::linked>(pgpu, each, pgpu_owner{self});
  self->send(self, caf::tick_atom_v);
  return {
      [self](const incoming_ptr& in) {
        if (in->peer == self->state.opts.manager_peer)
          on_manager(self, in->what);
        else
          on_worker(self, in->peer, in->what);
      },
      [self](const link_event_ptr& event) {
        auto& state = self->state;
        if (event->peer != state.opts.manager_peer)
          return;
        if (event->what == link_event::kind::up)
          state.connected = true;
        else if (event->what != link_event::kind::overrun)
          state.connected = state.registered = false;
        finish_stopping(self);
      },
      [self](const child_started& x) { on_child_started(self, x); },
      [self](const child_exited& x) {
        if (on_child_exited(self, x))
          beat(self);
        finish_stopping(self);
      },
      [self](const pgpu_changed& x) {
        self->state.boards[x.ordinal] = x.board;
        for (auto& each : self->state.opts.pgpus)
          if (each.ordinal == x.ordinal) {
            each.state = x.state;
            each.policy = x.policy;
            each.quantum_us = x.quantum_us;
          }
        if (self->state.connected)
          register_here(self);
      },
      [self](const supervisor_stop&) { begin_stopping(self); },
      [self](const metrics_ask&) -> metrics_ptr {
        return std::make_shared<const metrics_snapshot>(
            metrics_snapshot{node_status_json(self->state), {}, {}});
      },
      [self](caf::tick_atom) {
        beat(self);
        check_deadlines(self);
        self->delayed_send(self, self->state.beat_every, caf::tick_atom_v);
        finish_stopping(self);
      },
  };
}

} // namespace vgpu
