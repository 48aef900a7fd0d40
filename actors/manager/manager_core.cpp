#include "actors/manager/manager_core.hpp"

#include "actors/link/log.hpp"
#include "actors/manager/cluster/key_rights.hpp"
#include "policies/lifecycle/restart.hpp"

#include <chrono>
#include <type_traits>
#include <utility>
#include <variant>

namespace vgpu {

namespace {

manager_greeting greeting_of(const manager_options& x) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  manager_greeting out;
  out.incarnation = x.random();
  out.beat_every_ms = static_cast<std::uint32_t>(x.beat_every.count());
  out.lost_after_ms = static_cast<std::uint32_t>(
      duration_cast<milliseconds>(x.liveness.lost_after).count());
  out.term = x.right.term;
  return out;
}

/// Says whether `Part` has a handler for a `T`.
template <class Part, class T>
concept takes = requires(Part& part, const control::envelope& from,
                         const T& x) {
  part.handle(from.from, from, x);
};

/// Hands a message to the only part that takes a `T`. Returns false where none
/// does.
template <class T, class... Parts>
bool hand_over(const std::string& peer, const control::envelope& from,
               const T& x, Parts&... parts) {
  static_assert((int{takes<Parts, T>} + ...) <= 1, "two parts take a message");
  auto offer = [&](auto& part) {
    if constexpr (takes<decltype(part), T>)
      part.handle(peer, from, x);
  };
  (offer(parts), ...);
  return (takes<Parts, T> || ...);
}

} // namespace

manager_core::manager_core(manager_options options, std::shared_ptr<store> kept,
                           sender send, status_teller tell_status,
                           time_point now)
    : options_(std::move(options)), store_(std::move(kept)),
      clock_(now, options_.liveness),
      out_(std::move(send), options_.wall_time, clock_, state_),
      capacity_(options_, state_),
      accounts_(options_.wall_time, clock_, state_, out_),
      numbers_(options_, clock_, state_), peers_(out_, greeting_of(options_)),
      tenants_(state_, out_), placement_(options_, clock_, state_, out_,
                                         capacity_, accounts_, numbers_),
      moves_(options_, clock_, state_, out_, capacity_, placement_),
      commands_(options_, state_, out_, capacity_, placement_, moves_),
      lifecycle_(options_, clock_, state_, out_, capacity_, accounts_, numbers_,
                 tenants_, placement_, moves_),
      adoption_(options_, clock_, state_, out_, capacity_, numbers_, tenants_,
                placement_, moves_, lifecycle_),
      settings_(state_, out_, capacity_, tenants_, placement_),
      reclaimer_(options_, clock_, state_, moves_),
      swapper_(options_, clock_, state_, capacity_, placement_, moves_),
      balancer_(options_, clock_, state_, accounts_, moves_),
      nodes_(options_, clock_, state_, out_, capacity_, accounts_, numbers_,
             peers_, placement_, lifecycle_, settings_, reclaimer_),
      report_(options_, clock_, state_, out_, accounts_, numbers_, peers_),
      tell_status_(std::move(tell_status)) {
  note_idleness();
  ask_for_ticks();
  restore();
}

/// Restores what the store kept, and logs whose manager this is.
void manager_core::restore() {
  state_.kept = store_.get();
  if (store_) {
    const auto& past = store_->state();
    numbers_.restore(past.last_session, past.last_vgpu);
    out_.restore(past.events);
    accounts_.restore(past.usage);
    state_.drained = past.drained;
    state_.tenants = past.tenants;
  }
  auto elected = options_.right.term != 0;
  // Forgotten sessions that still exist are reported again, and their accounts
  // continue.
  if (elected)
    for (auto id : numbers_.begin())
      accounts_.close_forgotten(id);
  lifecycle_.restore();
  lifecycle_.end_revoked(); // since the former manager
  if (numbers_.has_given_numbers() || out_.last_event() != 0)
    numbers_.note_earlier_life();
  auto with = " with " + std::to_string(state_.sessions.size()) +
              " sessions from its store";
  if (elected)
    out_.emit(event_kind::manager_leads,
              options_.endpoint + " leads, term " +
                  std::to_string(options_.right.term) + "," + with);
  else if (numbers_.has_earlier_life())
    out_.emit(event_kind::manager_restarted, "the manager is back" + with);
}

// -- messages -----------------------------------------------------------------

void manager_core::on_message(const std::string& peer,
                              const control::envelope& what, time_point now) {
  clock_.advance(now);
  if (!peers_.may_say(peer, what))
    return;
  std::visit([&](const auto& x) { dispatch(peer, what, x); }, what.body);
}

/// Keeps what a client tells of its session: the time in which it recovers, who
/// serves touches of managed memory, and that it goes on after a failure.
void manager_core::note_told(const std::string& peer, const control::event& x) {
  constexpr std::size_t longest = 512;
  auto found = state_.sessions.find(x.session);
  if (found == state_.sessions.end() || found->second.client_peer != peer)
    return;
  auto& session = found->second;
  auto name = session.program.name + " ";
  auto text = x.text.starts_with(name) ? x.text.substr(name.size()) : x.text;
  text.resize(std::min(text.size(), longest));
  if (x.kind == "recovery-time")
    session.recovers = x.milliseconds > 0 ? text : std::string{};
  else if (x.kind == "managed-memory")
    session.touches = text;
  else if (x.kind == "first-result" && x.epoch == session.epoch)
    session.history = policy::after_progress(session.history);
}

template <class T>
void manager_core::dispatch(const std::string& peer,
                            const control::envelope& from, const T& x) {
  if constexpr (std::is_same_v<T, control::hello>) {
    if (peers_.welcome(peer, from, x) && x.as == control::role::client)
      lifecycle_.client_back(from.from);
  } else if constexpr (std::is_same_v<T, control::worker_prepared>) {
    moves_.worker_prepared(nodes_.registered(peer), x);
  } else if constexpr (std::is_same_v<T, control::status_request>) {
    tell_status_(peer, from.request, report_.view(confined_to(from)));
  } else if constexpr (std::is_same_v<T, control::audit_request>) {
    tell_audit(peer, from, x);
  } else if constexpr (std::is_same_v<T, control::shutdown>) {
    shut_down(peer, from);
  } else if constexpr (std::is_same_v<T, control::refusal>) {
    spdlog::warn("{} refuses: {}", from.from, x.reason);
  } else if constexpr (!std::is_same_v<T, control::done>) {
    if constexpr (std::is_same_v<T, control::event>)
      note_told(peer, x);
    auto taken = hand_over(peer, from, x, out_, accounts_, tenants_, moves_,
                           commands_, lifecycle_, adoption_, settings_, nodes_);
    if (!taken)
      out_.refuse(peer, from,
                  {fault_kind::unsupported, std::string{"a manager takes no "} +
                                                control::name_of(from.body)});
  }
}

/// Answers with records of the audit log.
void manager_core::tell_audit(const std::string& peer,
                              const control::envelope& from,
                              const control::audit_request& x) {
  if (!options_.audit)
    return out_.refuse(peer, from,
                       {fault_kind::missing,
                        "this manager keeps no audit log; one that was started "
                        "by itself or by `vgpu up` does"});
  const auto& head = options_.audit->head();
  out_.answer(
      peer, from.request,
      control::audit{options_.audit->after(x.after), head.number, head.digest});
}

/// Handles a node that leaves, or a command that ends this manager.
void manager_core::shut_down(const std::string& peer,
                             const control::envelope& from) {
  out_.answer(peer, from.request, control::done{});
  if (peers_.node_of(peer).empty())
    stopping_ = true;
  else
    nodes_.node_leaves(nodes_.registered(peer));
}

void manager_core::on_gone(const std::string& peer, time_point now) {
  clock_.advance(now);
  out_.drop(peer);
  auto role = peers_.remove(peer);
  if (!role)
    return;
  lifecycle_.drop_early_requests(peer);
  if (*role == control::role::client)
    lifecycle_.client_gone(peer);
  nodes_.connection_gone(peer);
}

void manager_core::on_revoked(time_point now) {
  clock_.advance(now);
  lifecycle_.end_revoked();
  ask_for_ticks();
}

void manager_core::on_renewed(const std::string& former,
                              const std::string& next, time_point now) {
  clock_.advance(now);
  adoption_.renew_key(former, next);
  ask_for_ticks();
}

// -- time ---------------------------------------------------------------------

void manager_core::on_tick(time_point now) {
  clock_.advance(now);
  nodes_.on_tick();
  lifecycle_.end_overdue();
  accounts_.on_tick();
  lifecycle_.displace_unexplained();
  moves_.on_tick();
  reclaimer_.on_tick();
  lifecycle_.retry_early_requests();
  placement_.place_waiting();
  swapper_.on_tick();
  balancer_.on_tick();
  out_.serve_waiters();
  note_idleness();
  ask_for_ticks();
}

void manager_core::on_looked(time_point now) {
  clock_.advance(now);
  nodes_.looked();
  ask_for_ticks();
}

void manager_core::note_idleness() {
  if (!options_.end_when_idle)
    return;
  if (!state_.sessions.empty() || peers_.has_clients())
    idle_since_.reset();
  else if (!idle_since_)
    idle_since_ = clock_.now();
  else if (clock_.now() >= *idle_since_ + *options_.end_when_idle)
    stopping_ = true;
}

void manager_core::ask_for_ticks() {
  clock_.forget_due();
  if (idle_since_)
    clock_.due(*idle_since_ + *options_.end_when_idle);
  nodes_.ask_for_ticks();
  lifecycle_.ask_for_ticks();
  clock_.due(out_.next_deadline());
  clock_.due(accounts_.next_deadline());
  clock_.due(balancer_.next_deadline());
  clock_.due(swapper_.next_deadline());
  reclaimer_.ask_for_ticks();
}

} // namespace vgpu
