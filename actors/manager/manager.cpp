#include "actors/manager/manager.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"
#include "actors/manager/cluster/key_rights.hpp"
#include "actors/manager/status_writer.hpp"
#include "actors/records/records_json.hpp"
#include "schema/base/cuda_fault.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace vgpu {

namespace {

using self_ptr = manager_actor::stateful_pointer<manager_state>;

void send(self_ptr self, const std::string& peer, control::envelope what) {
  self->state.trail.told(peer, what);
  self->send(self->state.link,
             std::make_shared<const outgoing>(outgoing{peer, std::move(what)}));
}

// -- leading and standing by --------------------------------------------------

void lead(self_ptr self, const mandate& right, time_point now) {
  auto& st = self->state;
  auto options = st.options;
  options.right = right;
  st.core = std::make_unique<manager_core>(
      std::move(options), st.kept,
      [self](const std::string& peer, control::envelope what) {
        send(self, peer, std::move(what));
      },
      [self](const std::string& peer, std::uint64_t request,
             status_view_ptr view) {
        self->send(self->state.writer,
                   status_order{peer, request, std::move(view)});
      },
      now);
  for (const auto& [peer, hello] : st.greeted)
    st.core->on_message(peer, hello, now);
}

/// Names the known leader, which is another manager.
control::redirect redirection(const manager_state& st) {
  const auto& leader = st.race->leader();
  if (!leader)
    return {{}, st.race->right().term};
  return {leader->endpoint, leader->term};
}

void stand_by(self_ptr self) {
  auto& st = self->state;
  st.core.reset();
  for (const auto& [peer, hello] : st.greeted)
    send(self, peer, {"manager", 0, redirection(st)});
}

/// Checks the clock. Call it before handling anything: the process may have
/// slept for longer than its lease, and must not act on what is in its mailbox.
void look_at_clock(self_ptr self, time_point now) {
  auto& st = self->state;
  if (!st.race)
    return;
  st.race->on_time(now);
  if (st.core && !st.race->leads())
    stand_by(self);
}

/// Call it after handling anything.
void settle(self_ptr self, time_point now) {
  auto& st = self->state;
  if (!st.race)
    return;
  look_at_clock(self, now);
  if (!st.core && st.race->leads())
    lead(self, st.race->right(), now);
  if (!st.core)
    return;
  st.core->kept(st.race->right().kept);
  if (auto what = st.core->to_keep()) {
    st.race->keep(std::move(*what), now);
    st.race->on_time(now);
  }
}

// -- time ---------------------------------------------------------------------

/// Arms a timer for what is due next, unless an earlier one is armed.
void arm(self_ptr self) {
  auto& st = self->state;
  auto next = st.core ? st.core->next_deadline() : std::nullopt;
  if (st.race)
    next = std::min(next.value_or(time_point::max()), st.race->next_deadline());
  if (!next || (st.armed && *st.armed <= *next))
    return;
  auto now = self->clock().now();
  st.armed = *next;
  self->delayed_send(self, std::max(*next - now, caf::timespan{0}),
                     caf::tick_atom_v);
}

void after_message(self_ptr self, time_point now) {
  auto& st = self->state;
  auto stopping = st.core && st.core->stopping();
  if (stopping && st.race)
    st.race->resign(now);
  settle(self, now);
  if (st.core && st.core->wants_look())
    self->send(st.link, link_look{self});
  if (st.race ? st.race->over() : stopping)
    self->quit(caf::exit_reason::user_shutdown);
  else
    arm(self);
}

// -- messages -----------------------------------------------------------------

void take(self_ptr self, const std::string& peer, const control::envelope& what,
          time_point now) {
  auto& st = self->state;
  auto is_hello = std::holds_alternative<control::hello>(what.body);
  if (is_hello && st.race)
    st.greeted[peer] = what;
  if (st.core)
    st.core->on_message(peer, what, now);
  else if (is_hello || what.request != 0)
    send(self, peer, {"manager", what.request, redirection(st)});
}

void refuse(self_ptr self, const incoming& in, const fault& why) {
  auto& st = self->state;
  if (auto before = st.refused.admits(in.who->name, log_limit::clock::now()))
    spdlog::warn("refused {}: {}{}", control::name_of(in.what.body), why.what,
                 note_suppressed(*before));
  send(self, in.peer,
       {"manager", in.what.request,
        control::refusal{cuda_code(why), why.what, {}}});
}

/// Has `permit` permit a key, and answers. Returns whether it is permitted.
template <class T>
bool permit_key(
    self_ptr self, const incoming& in, const T& x,
    const std::function<status(const principal&, const T&)>& permit) {
  auto done = permit ? permit(*in.who, x)
                     : status{fault{fault_kind::unsupported,
                                    "this manager gives no keys"}};
  if (done)
    send(self, in.peer, {"manager", in.what.request, control::done{}});
  else
    refuse(self, in, done.why());
  return done.ok();
}

/// Permits the key of a newcomer.
void take_key(self_ptr self, const incoming& in, const control::enroll& x) {
  if (permit_key(self, in, x, self->state.options.enroll))
    spdlog::info("{} has a key now, by the token of {}", printable(x.name),
                 in.who->name);
}

/// Permits another key of a peer.
void take_key(self_ptr self, const incoming& in, const control::renew_key& x,
              time_point now) {
  auto& st = self->state;
  if (!permit_key(self, in, x, st.options.renew))
    return;
  spdlog::info("{} has another key now", printable(in.who->name));
  if (st.core)
    st.core->on_renewed(in.who->key, x.key, now);
}

/// Tells a peer to renew its key, if it is due. Only who leads can permit it.
void announce_rotation(self_ptr self, const std::string& peer,
                       const principal& who) {
  const auto& st = self->state;
  if (!st.core || !st.options.rotation)
    return;
  if (auto told = st.options.rotation(who))
    send(self, peer, {"manager", 0, std::move(*told)});
}

/// Takes a message in the name of whom the sender's key names, if it has one.
void take(self_ptr self, const incoming& in, time_point now) {
  auto& trail = self->state.trail;
  auto what = in.who ? as_principal(in.who, in.what)
                     : result<control::envelope>{in.what};
  if (!what) {
    trail.refused(in.what, in.who, what.why().what);
    return refuse(self, in, what.why());
  }
  trail.begin(in.peer, *what);
  auto is_hello = std::holds_alternative<control::hello>(what->body);
  if (auto* x = std::get_if<control::enroll>(&what->body); x && in.who)
    take_key(self, in, *x);
  else if (auto* y = std::get_if<control::renew_key>(&what->body); y && in.who)
    take_key(self, in, *y, now);
  else
    take(self, in.peer, *what, now);
  trail.end();
  if (!is_hello || !in.who)
    return;
  self->state.keyed[in.peer] = in.who;
  announce_rotation(self, in.peer, *in.who);
}

void take(self_ptr self, const link_event& event, time_point now) {
  auto& st = self->state;
  if (event.what == link_event::kind::looked && st.core)
    st.core->on_looked(now);
  if (event.what == link_event::kind::revoked && st.core)
    st.core->on_revoked(now);
  if (event.what != link_event::kind::down)
    return;
  st.greeted.erase(event.peer);
  st.keyed.erase(event.peer);
  if (st.core)
    st.core->on_gone(event.peer, now);
}

/// Describes a manager that stands by.
metrics_ptr describe(const manager_state& st, time_point now) {
  auto nothing = nlohmann::json::array();
  auto uptime = std::chrono::duration<double>(now - st.started).count();
  return std::make_shared<const metrics_snapshot>(
      metrics_snapshot{to_line({{"manager",
                                 {{"endpoint", st.options.endpoint},
                                  {"leads", false},
                                  {"term", redirection(st).term},
                                  {"uptime", uptime}}},
                                {"nodes", nothing},
                                {"vgpus", nothing}}),
                       {},
                       {}});
}

/// Checks the clock, handles one message, and settles.
template <class F>
void handle(self_ptr self, F what) {
  auto now = self->clock().now();
  look_at_clock(self, now);
  what(now);
  after_message(self, now);
}

manager_actor::behavior_type behavior_of(self_ptr self) {
  arm(self);
  return {
      [self](const incoming_ptr& in) {
        handle(self, [&](time_point now) { take(self, *in, now); });
      },
      [self](const link_event_ptr& event) {
        handle(self, [&](time_point now) { take(self, *event, now); });
      },
      [self](const etcd_answer_ptr& x) {
        handle(self, [&](time_point now) {
          if (self->state.race)
            self->state.race->on_answer(*x, now);
        });
      },
      [self](const manager_resign&) {
        if (!self->state.race)
          return self->quit(caf::exit_reason::user_shutdown);
        handle(self, [&](time_point now) { self->state.race->resign(now); });
      },
      [self](const keys_rotated&) {
        for (const auto& [peer, who] : self->state.keyed)
          announce_rotation(self, peer, *who);
      },
      [self](const metrics_ask&) -> caf::result<metrics_ptr> {
        auto& st = self->state;
        if (!st.core)
          return describe(st, self->clock().now());
        return self->delegate(st.writer, metrics_order{st.core->status(),
                                                       st.core->tallies(),
                                                       st.core->usage_json()});
      },
      [self](caf::tick_atom) {
        auto& st = self->state;
        if (st.armed && *st.armed > self->clock().now())
          return; // an earlier timer did this one's work
        st.armed.reset();
        handle(self, [&](time_point now) {
          if (st.core)
            st.core->on_tick(now);
        });
      },
  };
}

void prepare(self_ptr self, manager_options options,
             std::shared_ptr<store> kept, link_actor link) {
  auto& st = self->state;
  st.options = std::move(options);
  st.trail = {st.options.audit, st.options.wall_time};
  st.kept = std::move(kept);
  st.link = std::move(link);
  st.writer = self->spawn<caf::linked>(status_writer, st.link);
  st.started = self->clock().now();
}

} // namespace

manager_actor::behavior_type manager(self_ptr self, manager_options options,
                                     std::shared_ptr<store> kept,
                                     link_actor link) {
  prepare(self, std::move(options), std::move(kept), std::move(link));
  lead(self, {}, self->state.started);
  return behavior_of(self);
}

manager_actor::behavior_type manager_candidate(self_ptr self,
                                               manager_options options,
                                               std::shared_ptr<store> kept,
                                               link_actor link, candidacy how) {
  prepare(self, std::move(options), std::move(kept), std::move(link));
  auto& st = self->state;
  st.etcd = std::move(how.etcd);
  how.election.known = [store = st.kept] {
    etcd::record out;
    if (store) {
      const auto& past = store->state();
      out.term = past.term;
      out.numbers = std::max(past.last_session, past.last_vgpu);
    }
    return out;
  };
  st.race = std::make_unique<election>(
      std::move(how.election),
      [self](std::uint64_t number, etcd::question what,
             std::chrono::milliseconds within) {
        self->state.etcd->ask(number, std::move(what), within, self);
      },
      st.started);
  st.race->on_time(st.started);
  return behavior_of(self);
}

std::uint64_t random_number() {
  std::uint64_t out = 0;
  while (out == 0)
    if (::getrandom(&out, sizeof(out), 0) != sizeof(out) && errno != EINTR)
      throw std::system_error{errno, std::generic_category(), "getrandom"};
  return out;
}

double wall_time() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace vgpu
