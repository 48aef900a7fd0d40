#include "actors/worker/worker.hpp"

#include "actors/link/log.hpp"

#include <variant>

namespace vgpu {

namespace {

using self_ptr = worker_actor::stateful_pointer<worker_state>;

void send(self_ptr self, control::body what) {
  auto& st = self->state;
  self->send(st.link, std::make_shared<const outgoing>(
                          outgoing{{}, {st.options.name, 0, std::move(what)}}));
}

void beat(self_ptr self) {
  auto& st = self->state;
  auto& g = *st.gauges;
  g.account.look();
  g.busy.look();
  auto used = g.account.used();
  control::worker_beat x;
  x.load = {.session = st.options.session,
            .epoch = st.at->epoch,
            .memory_bytes = g.memory,
            .calls = g.calls,
            .call = g.position,
            .device_ns = static_cast<std::uint64_t>(g.account.worked().count()),
            .quota = g.quota,
            .usage = used,
            .idle_ms = static_cast<std::uint64_t>(g.account.idle().count()),
            .side = {g.variables, g.code, g.context}};
  x.error = static_cast<CUresult>(g.error.load());
  send(self, std::move(x));
  self->delayed_send(self, st.options.beat_every, caf::tick_atom_v);
}

void greet(self_ptr self) {
  auto& st = self->state;
  if (!st.connected)
    return;
  if (!st.vgpu)
    return send(self, control::worker_prepared{
                          st.options.session, {}, st.options.next});
  if (!st.at)
    return; // the vGPU is about to answer
  send(self, control::worker_hello{
                 st.at->session, st.at->epoch, st.at->endpoints, {}});
  beat(self);
}

/// Asks the vGPU where it is, and reports that to the node.
void begin(self_ptr self, const vgpu_actor& vgpu) {
  self->state.vgpu = vgpu;
  self->request(vgpu, caf::infinite, where_is_vgpu{})
      .then(
          [self](const vgpu_place& at) {
            spdlog::info("{}: {} is here, in epoch {}",
                         self->state.options.name, at.name, at.epoch.value);
            self->state.at = at;
            greet(self);
          },
          [self](const caf::error&) {
            // The process is about to end, which the node notices.
            spdlog::warn("{}: the vGPU was gone before it could say where it "
                         "is; its node starts another worker",
                         self->state.options.name);
          });
}

// One overload of take() for each message of the node.

void take(self_ptr self, const control::resize_session& to) {
  const auto& st = self->state;
  if (!to.client_key.empty() && st.options.on_client_key)
    st.options.on_client_key(to.client_key, to.former_key);
  if (to.share != 0)
    self->send(st.vgpu, resize_vgpu{to.quota});
}

void take(self_ptr self, const control::inject_fault& order) {
  self->send(self->state.vgpu, break_device{0, order.kind});
}

/// Ignores every other message.
template <class T>
void take(self_ptr, const T&) {}

void take_envelope(self_ptr self, const control::envelope& in) {
  if (!self->state.vgpu)
    return; // there is nothing to resize or to break yet
  std::visit([&](const auto& x) { take(self, x); }, in.body);
}

void take(self_ptr self, const link_event& change) {
  auto& st = self->state;
  switch (change.what) {
  case link_event::kind::up:
    if (!st.connected) {
      st.connected = true;
      if (st.options.on_connected)
        st.options.on_connected();
      greet(self);
    }
    return;
  case link_event::kind::down:
  case link_event::kind::unreachable:
    // A node and its workers are on one host, so the link breaks only when the
    // node ends.
    spdlog::warn("{}: the node is gone", st.options.name);
    st.node_gone();
    return;
  case link_event::kind::overrun:
  case link_event::kind::looked:
  case link_event::kind::revoked:
  case link_event::kind::rekeyed:
    return;
  }
}

} // namespace

worker_actor::behavior_type worker(self_ptr self, worker_options options,
                                   link_actor link,
                                   std::shared_ptr<session_gauges> gauges,
                                   std::function<void()> node_gone) {
  auto& st = self->state;
  st.options = std::move(options);
  st.link = std::move(link);
  st.gauges = std::move(gauges);
  st.node_gone = std::move(node_gone);
  self->send(st.link, control_consumer{self});
  return {
      [self](const incoming_ptr& in) { take_envelope(self, in->what); },
      [self](const link_event_ptr& change) { take(self, *change); },
      [self](const worker_begins& x) { begin(self, x.vgpu); },
      [self](caf::tick_atom) { beat(self); },
  };
}

} // namespace vgpu
