#include "actors/link/managers/renewing_link.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace vgpu {

namespace {

using self_ptr = renewing_link_actor::stateful_pointer<renewing_link_state>;

constexpr std::chrono::seconds until_next_try{1};
/// Tells its requests from those of the consumer, which counts from 1.
constexpr std::uint64_t first_request = std::uint64_t{1} << 63;

/// Asks the manager to permit the next key.
void ask(self_ptr self) {
  auto& st = self->state;
  if (!st.order)
    return;
  auto keys = st.kept->begin(*st.order);
  if (!keys) {
    spdlog::warn("cannot renew the key, and tries again: {}", keys.why().what);
    self->delayed_send(self, until_next_try, caf::tick_atom_v);
    return;
  }
  st.next = std::move(*keys);
  st.request = std::max(st.request + 1, first_request);
  self->send(st.link,
             std::make_shared<const outgoing>(outgoing{
                 {},
                 {"renewal", st.request,
                  control::renew_key{st.order->number, st.next->own.open}}}));
}

/// Takes the answer to ask().
void on_answer(self_ptr self, const control::body& what) {
  auto& st = self->state;
  st.order.reset();
  if (auto* no = std::get_if<control::refusal>(&what)) {
    spdlog::error("the manager does not renew the key: {}",
                  printable(no->reason));
    return;
  }
  self->send(st.link, link_rekey{st.next});
}

/// Takes what is for this actor. Returns whether it was.
bool take(self_ptr self, const incoming& in) {
  auto& st = self->state;
  if (auto* order = std::get_if<control::rotate_key>(&in.what.body)) {
    st.order = *order;
    ask(self);
    return true;
  }
  auto mine = in.what.request >= first_request;
  if (mine && in.what.request == st.request && st.order)
    on_answer(self, in.what.body);
  return mine;
}

/// Keeps the key with which the link has connected.
void keep(self_ptr self) {
  auto& st = self->state;
  if (!st.next)
    return;
  if (auto kept = st.kept->finish(st.next->own.open); !kept)
    spdlog::error("the key was renewed, and cannot be kept: {}",
                  kept.why().what);
  else
    spdlog::info("the key was renewed");
}

} // namespace

renewing_link_actor::behavior_type
renewing_link(self_ptr self, link_actor link, std::shared_ptr<key_renewal> kept,
              std::shared_ptr<const link_keys> next) {
  auto& st = self->state;
  st.link = std::move(link);
  st.kept = std::move(kept);
  st.next = std::move(next);
  // The link ends with this actor, whatever its exit reason.
  self->link_to(st.link);
  return {
      [self](control_consumer& consumer) {
        self->state.consumer = std::move(consumer);
        self->send(self->state.link, control_consumer{self});
      },
      [self](const outgoing_ptr& out) { self->send(self->state.link, out); },
      [self](const link_look&) {
        self->send(self->state.link, link_look{self});
      },
      [self](const link_rekey& x) { self->send(self->state.link, x); },
      [self](const incoming_ptr& in) {
        if (!take(self, *in))
          self->send(self->state.consumer, in);
      },
      [self](const link_event_ptr& event) {
        if (event->what == link_event::kind::rekeyed)
          keep(self);
        self->send(self->state.consumer, event);
      },
      [self](caf::tick_atom) { ask(self); },
  };
}

} // namespace vgpu
