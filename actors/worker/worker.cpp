#include "actors/worker/worker.hpp"

#include "actors/link/log.hpp"

#include <utility>
#include <variant>

namespace vgpu {

namespace {

using self_ptr = worker_actor::stateful_pointer<worker_state>;

/// Is the number of the only request to the node: to end standbys.
constexpr std::uint64_t ending_request = 1;

void send(self_ptr self, control::body what, std::uint64_t request = 0) {
  auto& st = self->state;
  self->send(st.link, std::make_shared<const outgoing>(outgoing{
                          {}, {st.options.name, request, std::move(what)}}));
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

void take(self_ptr self, const control::worker_prepared& x) {
  const auto& st = self->state;
  if (x.session == st.options.session)
    self->send(st.vgpu, standby_changed{x.next});
}

void take(self_ptr self, const control::inject_fault& order) {
  self->send(self->state.vgpu, break_device{0, order.kind});
}

/// Ignores every other message.
template <class T>
void take(self_ptr, const T&) {}

/// Asks the node to end the standbys on the session's devices.
caf::typed_response_promise<bool> end_standbys(self_ptr self) {
  auto& st = self->state;
  auto answer = self->make_response_promise<bool>();
  if (!st.at || st.in_the_way) {
    answer.deliver(false);
    return answer;
  }
  st.in_the_way = answer;
  send(self,
       control::standby{st.at->session, st.at->epoch,
                        control::standby_news::in_the_way},
       ending_request);
  return answer;
}

void take_envelope(self_ptr self, const control::envelope& in) {
  auto& waits = self->state.in_the_way;
  if (in.request == ending_request && waits) {
    waits->deliver(std::holds_alternative<control::done>(in.body));
    return waits.reset();
  }
  if (!self->state.vgpu)
    return; // nothing is for a worker without orders
  std::visit([&](const auto& x) { take(self, x); }, in.body);
}

void tell_of_standby(self_ptr self, control::standby_news news) {
  const auto& st = self->state;
  if (st.at)
    send(self, control::standby{st.at->session, st.at->epoch, news});
  else if (news == control::standby_news::wanted) // the node knows no vGPU yet
    self->send(st.vgpu, standby_changed{});
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
      [self](const standby_said& x) { tell_of_standby(self, x.news); },
      [self](standbys_in_the_way) { return end_standbys(self); },
      [self](caf::tick_atom) { beat(self); },
  };
}

} // namespace vgpu
