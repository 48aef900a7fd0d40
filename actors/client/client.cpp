#include "actors/client/client.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>

namespace vgpu {

namespace {

using self_ptr = client_actor::stateful_pointer<client_state>;

void send(self_ptr self, control::body what, std::uint64_t request = 0) {
  auto& st = self->state;
  self->send(st.link, std::make_shared<const outgoing>(outgoing{
                          {}, {st.options.name, request, std::move(what)}}));
}

client_session* find(self_ptr self, auto predicate) {
  for (auto& [key, session] : self->state.sessions)
    if (predicate(session))
      return &session;
  return nullptr;
}

std::uint32_t to_ms(double x) {
  constexpr double most = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::clamp(x, 0.0, most));
}

std::uint32_t ms_since(self_ptr self, caf::actor_clock::time_point when) {
  std::chrono::duration<double, std::milli> ago = self->clock().now() - when;
  return to_ms(ago.count());
}

control::memory_turns turns_of(self_ptr self, const client_session& x) {
  return {x.paused && x.preempted, ms_since(self, x.since), x.left_in_ms,
          x.back_in_ms};
}

/// Returns the message that introduces this session to the manager.
control::body question(self_ptr self, const client_session& x) {
  if (x.lease)
    return control::adopt{x.lease->session,
                          x.lease->vgpu,
                          x.lease->epoch,
                          x.lease->token,
                          x.specification,
                          x.program,
                          x.lease->node,
                          x.lease->quota,
                          x.paused,
                          x.paused && x.pausing.hold,
                          x.paused && x.process_checkpointed,
                          turns_of(self, x)};
  if (x.resumed)
    return *x.resumed;
  return control::acquire{x.specification, x.program, ms_since(self, x.opened)};
}

void ask(self_ptr self, client_session& x) {
  auto& st = self->state;
  x.request = ++st.last_request;
  if (st.up)
    send(self, question(self, x), x.request);
}

void refuse(self_ptr self, const client_session& x, control::refusal why) {
  self->send(x.io, std::make_shared<const control::refusal>(std::move(why)));
}

// -- sessions -----------------------------------------------------------------

/// Returns since when its program waits. The program's memory says so if there
/// was a client before this one. A time in the future is not believed.
caf::actor_clock::time_point opened_at(self_ptr self, const guest_opened& x) {
  using clock = caf::actor_clock;
  auto now = self->clock().now();
  if (!x.area)
    return now;
  auto ns = static_cast<std::uint64_t>(
      std::chrono::nanoseconds{now.time_since_epoch()}.count());
  auto& kept = x.area->header().waits_since;
  auto told = kept.load();
  if (told == 0 || told > ns) {
    kept.store(ns);
    return now;
  }
  return clock::time_point{
      std::chrono::nanoseconds{static_cast<std::int64_t>(told)}};
}

void open(self_ptr self, const session_client_actor& io,
          const guest_opened& what) {
  auto& st = self->state;
  auto key = ++st.last_key;
  auto& x = st.sessions[key];
  x.opened = opened_at(self, what);
  x.io = io;
  x.program = what.program;
  x.specification = what.specification;
  x.resumed = what.resumed;
  x.area = what.area;
  self->monitor(io);
  if (!st.options.no_manager.empty())
    return refuse(self, x, {CUDA_ERROR_NO_DEVICE, st.options.no_manager, {}});
  ask(self, x);
  self->delayed_send(self, st.options.manager_patience, client_impatient{key});
}

/// Refuses a program that has waited long enough for a manager and never got a
/// vGPU.
void give_up(self_ptr self, std::uint64_t key) {
  auto i = self->state.sessions.find(key);
  if (i == self->state.sessions.end() || i->second.lease ||
      i->second.request == 0 || self->state.up)
    return;
  refuse(self, i->second,
         {CUDA_ERROR_NO_DEVICE,
          "the manager does not answer; check VGPU_MANAGER and that "
          "vgpu-manager runs there",
          {}});
}

void look_idle(self_ptr self) {
  auto& st = self->state;
  if (!st.sessions.empty())
    return;
  self->delayed_send(self, st.options.idle_for, client_idle{++st.idle_round});
}

void close(self_ptr self, const caf::down_msg& msg) {
  auto& st = self->state;
  for (auto i = st.sessions.begin(); i != st.sessions.end(); ++i) {
    if (i->second.io.address() != msg.source)
      continue;
    if (auto& lease = i->second.lease)
      send(self, control::close_session{lease->session, lease->epoch,
                                        "the program ended"});
    st.sessions.erase(i);
    return look_idle(self);
  }
}

// -- programs that watch ------------------------------------------------------

/// Adds what the session uses of its devices.
void describe(guest::watched& out, const client_session& x) {
  const auto& header = x.area->header();
  for (std::size_t i = 0; i < std::min(x.lease->devices.size(), most_devices);
       ++i) {
    const auto& facts = x.lease->devices[i];
    auto at = std::find_if(out.devices.begin(), out.devices.end(),
                           [&](auto& y) { return y.uuid == facts.uuid; });
    guest::watched_use use;
    use.device = static_cast<std::size_t>(at - out.devices.begin());
    if (at == out.devices.end())
      out.devices.push_back(facts);
    use.pid = x.program.pid;
    use.quota = x.lease->quota != 0 ? x.lease->quota : facts.total_memory;
    use.used = header.used[i].load(std::memory_order_relaxed);
    use.busy =
        busy_word::percent(header.busy[i].load(std::memory_order_relaxed),
                           busy_word::clock::now());
    out.uses.push_back(use);
  }
}

/// Answers with the vGPUs of a group, as many as one packet holds.
void watch(self_ptr self, const session_client_actor& io,
           const guest_watches& what) {
  constexpr std::size_t most_uses = 2'048;
  auto out = std::make_shared<guest::watched>();
  for (const auto& [key, x] : self->state.sessions)
    if (x.lease && x.area && x.specification.group == what.group &&
        out->devices.size() < most_devices && out->uses.size() < most_uses)
      describe(*out, x);
  self->send(io, watched_ptr{std::move(out)});
}

// -- the manager's messages ---------------------------------------------------

// One overload of take() for each message of the manager.

void take(self_ptr self, const control::envelope& from,
          const control::lease& lease) {
  auto* x = find(self, [&](const client_session& s) {
    return from.request != 0 && s.request == from.request;
  });
  // The message is no answer, or answers a request that was repeated since.
  if (x == nullptr)
    x = find(self, [&](const client_session& s) {
      return s.lease && s.lease->session == lease.session;
    });
  if (x == nullptr) {
    // The program is gone, so the manager may forget the session.
    send(self, control::close_session{lease.session, lease.epoch,
                                      "the program ended"});
    return;
  }
  x->request = 0;
  auto amended = x->lease && lease.epoch == x->lease->epoch &&
                 !lease.has_terms_of(*x->lease);
  if (x->lease && lease.epoch <= x->lease->epoch && !amended)
    return;
  x->wakes = x->wakes && amended;
  x->paused = x->paused && amended;
  if (!amended)
    x->since = self->clock().now();
  // The next manager may know the session from its client alone.
  control::set_recovery(x->specification, lease.recovery);
  x->lease = lease;
  self->send(x->io, std::make_shared<const control::lease>(lease));
}

void take(self_ptr self, const control::envelope& from,
          const control::refusal& why) {
  auto* x = find(self, [&](const client_session& s) {
    return from.request != 0
               ? s.request == from.request
               : s.lease && why.session && s.lease->session == why.session;
  });
  if (x == nullptr) {
    spdlog::warn("the manager refused something: {}", why.reason);
    return;
  }
  x->request = 0;
  refuse(self, *x, why);
}

/// Takes an order to pause a session.
void take(self_ptr self, const control::envelope&,
          const control::pause_session& order) {
  auto* x = find(self, [&](const client_session& s) {
    return s.lease && s.lease->session == order.session;
  });
  if (x == nullptr)
    return send(self, control::paused{order.session, order.epoch,
                                      "its program is gone", 0, 0});
  if (order.epoch == x->lease->epoch)
    x->pausing = order;
  self->send(x->io, std::make_shared<const control::pause_session>(order));
}

/// Takes the report that there is room again for a checkpointed worker process.
void take(self_ptr self, const control::envelope&,
          const control::restore_process& order) {
  auto* x = find(self, [&](const client_session& s) {
    return s.lease && s.lease->session == order.session;
  });
  if (x == nullptr)
    return;
  x->paused = x->wakes = false;
  self->send(x->io, std::make_shared<const control::restore_process>(order));
}

/// Takes the reason why a session waits. It changes nothing.
void take(self_ptr self, const control::envelope& from,
          const control::event& what) {
  auto* x = find(self, [&](const client_session& s) {
    return from.request != 0 ? s.request == from.request
                             : s.lease && s.lease->session == what.session;
  });
  if (x == nullptr)
    return;
  spdlog::info("{} (process {}) waits for a GPU: {}",
               printable(x->program.name), x->program.pid,
               printable(what.text));
  self->send(x->io, std::make_shared<const control::event>(what));
}

void take(self_ptr self, const control::envelope&, const control::welcome&) {
  self->state.up = true;
  for (auto& [key, session] : self->state.sessions) {
    ask(self, session);
    if (session.wakes)
      send(self, control::wake_session{session.lease->session});
  }
}

void take(self_ptr self, const control::envelope&, const control::redirect&) {
  // It sends a welcome when it leads. Then everything is requested again.
  self->state.up = false;
}

/// Logs every other message, because a client takes none of them.
template <class T>
void take(self_ptr, const control::envelope&, const T&) {
  spdlog::warn("the manager sent a message that no client takes");
}

void take(self_ptr self, const link_event& change) {
  // A connection is not enough: all requests are sent when the manager has sent
  // its welcome.
  if (change.what == link_event::kind::down)
    self->state.up = false;
}

/// Records that the session's worker was released, or its process checkpointed.
/// A session that migrates asks each manager for a place.
void note_paused(self_ptr self, client_session& x, const control::paused& how) {
  x.paused = true;
  x.process_checkpointed = how.process_checkpointed;
  x.wakes = x.wakes || !x.pausing.suspend;
  x.since = self->clock().now();
  x.preempted = x.pausing.turn_over;
  if (!x.preempted)
    return;
  x.left_in_ms = to_ms(how.milliseconds);
  x.back_in_ms = 0;
}

/// Records that a worker serves it again.
void note_restored(self_ptr self, client_session& x, double milliseconds) {
  x.since = self->clock().now();
  if (std::exchange(x.preempted, false))
    x.back_in_ms = to_ms(milliseconds);
}

/// Sends a session's message to the manager. A suspicion that is lost needs no
/// repetition: when the manager is back, the session is adopted and suspected
/// again.
void tell(self_ptr self, const control::body& what) {
  auto of = [&](session_id id) {
    return find(self, [id](const client_session& s) {
      return s.lease && s.lease->session == id;
    });
  };
  if (auto* wake = std::get_if<control::wake_session>(&what)) {
    if (auto* x = of(wake->session))
      x->wakes = true;
  } else if (auto* paused = std::get_if<control::paused>(&what)) {
    if (auto* x = of(paused->session);
        x && paused->failure.empty() && paused->epoch == x->lease->epoch)
      note_paused(self, *x, *paused);
  } else if (auto* back = std::get_if<control::restored>(&what)) {
    if (auto* x = of(back->session))
      note_restored(self, *x, back->milliseconds);
  }
  if (self->state.up)
    send(self, what);
}

} // namespace

client_actor::behavior_type client(self_ptr self, client_options options,
                                   link_actor link,
                                   std::function<void()> idle) {
  auto& st = self->state;
  st.options = std::move(options);
  st.link = std::move(link);
  st.idle = std::move(idle);
  self->set_down_handler([self](caf::down_msg& msg) { close(self, msg); });
  self->send(st.link, control_consumer{self});
  look_idle(self);
  return {
      [self](const session_client_actor& io, const guest_opened_ptr& what) {
        open(self, io, *what);
      },
      [self](const session_client_actor& io, const guest_watches_ptr& what) {
        watch(self, io, *what);
      },
      [self](const control_body_ptr& what) { tell(self, *what); },
      [self](const incoming_ptr& in) {
        std::visit([&](const auto& x) { take(self, in->what, x); },
                   in->what.body);
      },
      [self](const link_event_ptr& change) { take(self, *change); },
      [self](const client_impatient& x) { give_up(self, x.key); },
      [self](const client_idle& x) {
        if (x.round == self->state.idle_round && self->state.sessions.empty())
          self->state.idle();
      },
  };
}

} // namespace vgpu
