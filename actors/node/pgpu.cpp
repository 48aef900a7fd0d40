#include "actors/node/pgpu.hpp"

#include "actors/link/log.hpp"

#include <cuda.h>

#include <algorithm>

namespace vgpu {

namespace {

/// Frees everything that the session has on the device, because its worker is
/// dead.
void release(pgpu_state& st, session_id session) {
  auto i = st.seats.find(session);
  if (i == st.seats.end())
    return;
  if (i->second.place != policy::share_table::nobody)
    st.board->stand(i->second.place);
  st.seats.erase(i);
}

pgpu_answer reserve(pgpu_state& st, const pgpu_reserve& x) {
  auto name = "pGPU " + std::to_string(st.what.ordinal);
  if (st.what.state != control::pgpu_health::healthy)
    return {st.what.ordinal,
            name + " is " + control::name_of(st.what.state),
            policy::share_table::nobody,
            {}};
  if (x.quota > st.what.facts.total_memory)
    return {st.what.ordinal,
            name + " has " + std::to_string(st.what.facts.total_memory >> 20) +
                " MiB, fewer than the quota of " +
                std::to_string(x.quota >> 20) + " MiB",
            policy::share_table::nobody,
            {}};
  // A worker of a former epoch executes nothing any more.
  release(st, x.session);
  auto place = st.board ? st.board->sit(x.claim) : policy::share_table::nobody;
  if (st.board && place == policy::share_table::nobody)
    spdlog::warn(
        "{} has {} sessions, the most that take turns: a further one runs "
        "without turns",
        name, policy::most_seats);
  st.seats[x.session] = {x.epoch, x.quota, 0, place};
  return {st.what.ordinal, {}, place, st.board};
}

void set_claim(pgpu_state& st, const pgpu_claim& x) {
  auto i = st.seats.find(x.session);
  if (i != st.seats.end() && i->second.place != policy::share_table::nobody)
    st.board->set_claim(i->second.place, x.claim);
}

/// Returns the message for the owner.
pgpu_changed changed(const pgpu_state& st) {
  return {st.what.ordinal, st.what.state, st.what.policy, st.what.quantum_us,
          st.board};
}

void note_rules(pgpu_state& st) {
  auto rules = st.board->rules();
  st.what.policy = policy::name_of(rules.policy);
  st.what.quantum_us = static_cast<std::uint32_t>(rules.quantum / 1000);
}

void set_rules(pgpu_state& st, const pgpu_rules& x) {
  auto rules = st.board->rules();
  rules.policy = policy::parse_share_policy(x.policy).value_or(rules.policy);
  if (x.quantum_us != 0)
    rules.quantum = policy::share_ns{x.quantum_us} * 1000;
  st.board->set_rules(rules);
  note_rules(st);
}

/// Is the share policy until `vgpu policy` sets another. Turns are exact where
/// the host schedules the session of the turn at once. On an overloaded host
/// shares may be off by some ten percentage points, so nothing is promised by
/// default.
constexpr auto default_policy = policy::share_policy::best_effort;

/// Returns the number of the device's threads, each of which is a
/// multiprocessor.
std::uint32_t processors_of(const control::pgpu& x) {
  auto i = x.facts.attributes.find(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return i == x.facts.attributes.end()
             ? 1
             : static_cast<std::uint32_t>(std::max(i->second, 1));
}

void make_board(pgpu_state& st) {
  auto made = share_board::create();
  if (!made) {
    spdlog::error("pGPU {} cannot share its compute by turns: {}",
                  st.what.ordinal, made.why().what);
    return;
  }
  st.board = std::move(*made);
  auto rules = st.board->rules();
  rules.policy = default_policy;
  if (st.what.backend == "cpu")
    rules.processors = processors_of(st.what);
  st.board->set_rules(rules);
  note_rules(st);
}

pgpu_account account(const pgpu_state& st) {
  pgpu_account out;
  out.state = st.what.state;
  for (const auto& [id, seat] : st.seats) {
    out.sessions.push_back(id);
    out.quotas += seat.quota;
    out.used += seat.used;
  }
  return out;
}

} // namespace

pgpu_actor::behavior_type pgpu(pgpu_actor::stateful_pointer<pgpu_state> self,
                               control::pgpu what, pgpu_owner owner) {
  self->state.what = std::move(what);
  make_board(self->state);
  // Report the share policy to the owner.
  self->send(owner, changed(self->state));
  return {
      [self](const pgpu_reserve& x) { return reserve(self->state, x); },
      [self](const pgpu_release& x) {
        auto i = self->state.seats.find(x.session);
        if (i != self->state.seats.end() && i->second.epoch == x.epoch)
          release(self->state, x.session);
      },
      [self](const pgpu_claim& x) { set_claim(self->state, x); },
      [self, owner](const pgpu_rules& x) {
        if (!self->state.board)
          return;
        set_rules(self->state, x);
        self->send(owner, changed(self->state));
      },
      [self](const pgpu_use& x) {
        auto i = self->state.seats.find(x.session);
        if (i != self->state.seats.end())
          i->second.used = x.bytes;
      },
      [self, owner](const pgpu_fail& x) {
        auto& st = self->state;
        if (st.what.state != control::pgpu_health::healthy)
          return;
        st.what.state = x.state;
        self->send(owner, changed(st));
      },
      [self](const pgpu_ask&) { return account(self->state); },
  };
}

} // namespace vgpu
