#include "actors/pgpu.hpp"

namespace vgpu {

namespace {

pgpu_answer reserve(pgpu_state& st, const pgpu_reserve& x) {
  auto name = "pGPU " + std::to_string(st.what.ordinal);
  if (st.what.state != "healthy")
    return {st.what.ordinal, name + " is " + st.what.state};
  if (x.quota > st.what.facts.total_memory)
    return {st.what.ordinal,
            name + " has " + std::to_string(st.what.facts.total_memory >> 20) +
                " MiB, fewer than the quota of " +
                std::to_string(x.quota >> 20) + " MiB"};
  st.seats[x.session] = {x.quota, 0};
  return {st.what.ordinal, {}};
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

caf::behavior pgpu(caf::stateful_actor<pgpu_state>* self, control::pgpu what,
                   caf::actor owner) {
  self->state.what = std::move(what);
  return {
      [self](const pgpu_reserve& x) { return reserve(self->state, x); },
      [self](const pgpu_release& x) { self->state.seats.erase(x.session); },
      [self](const pgpu_use& x) {
        auto i = self->state.seats.find(x.session);
        if (i != self->state.seats.end())
          i->second.used = x.bytes;
      },
      [self, owner](const pgpu_fail& x) {
        auto& st = self->state;
        if (st.what.state != "healthy")
          return;
        st.what.state = x.state;
        self->send(owner, pgpu_changed{st.what.ordinal, x.state});
      },
      [self](const pgpu_ask&) { return account(self->state); },
  };
}

} // namespace vgpu
