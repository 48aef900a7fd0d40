#include "actors/manager.hpp"

#include "actors/metrics.hpp"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace vgpu {

namespace {

using self_ptr = caf::stateful_actor<manager_state>*;

/// Arms a timer for what is due next, unless an earlier one is armed.
void arm(self_ptr self) {
  auto& st = self->state;
  auto next = st.core->next_deadline();
  if (!next || (st.armed && *st.armed <= *next))
    return;
  auto now = self->clock().now();
  st.armed = *next;
  self->delayed_send(self, std::max(*next - now, caf::timespan{0}),
                     caf::tick_atom_v);
}

void after_message(self_ptr self) {
  if (self->state.core->stopping())
    self->quit(caf::exit_reason::user_shutdown);
  else
    arm(self);
}

} // namespace

caf::behavior manager(self_ptr self, manager_options options,
                      std::shared_ptr<store> kept, caf::actor link) {
  self->state.core = std::make_unique<manager_core>(
      std::move(options), std::move(kept),
      [self, link](const std::string& peer, control::envelope what) {
        self->send(link, std::make_shared<const outgoing>(
                             outgoing{peer, std::move(what)}));
      },
      self->clock().now());
  arm(self);
  return {
      [self](const incoming_ptr& in) {
        self->state.core->on_message(in->peer, in->what, self->clock().now());
        after_message(self);
      },
      [self](const link_event_ptr& event) {
        if (event->what == link_event::kind::down)
          self->state.core->on_gone(event->peer, self->clock().now());
        after_message(self);
      },
      [self](const metrics_ask&) -> metrics_ptr {
        auto& core = *self->state.core;
        return std::make_shared<const metrics_snapshot>(metrics_snapshot{
            core.status_json(), core.tallies(), core.usage_json()});
      },
      [self](caf::tick_atom) {
        auto& st = self->state;
        auto now = self->clock().now();
        if (st.armed && *st.armed > now)
          return; // an earlier timer has made this one moot
        st.armed.reset();
        st.core->on_tick(now);
        after_message(self);
      },
  };
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
