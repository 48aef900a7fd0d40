// Streams, events and host functions.
#include "actors/link/latch.hpp"
#include "actors/worker/execute/call_dispatch.hpp"

#include <algorithm>
#include <bit>

namespace vgpu {

status call_dispatch::operator()(const call::stream_create& x) {
  state().add(x.stream.id);
  if (x.non_blocking == 0)
    self.blocking_[ordinal].insert(x.stream.id);
  return dev().create_stream(x.stream.id, x.non_blocking != 0, x.priority);
}

status call_dispatch::operator()(const call::stream_destroy& x) {
  state().remove(x.stream.id);
  order().forget(x.stream.id);
  self.blocking_[ordinal].erase(x.stream.id);
  return dev().destroy_stream(x.stream.id);
}

status call_dispatch::operator()(const call::event_create& x) {
  state().add(x.event.id);
  times().created(x.event.id, x.timing != 0);
  return dev().create_event(x.event.id, x.timing != 0);
}

status call_dispatch::operator()(const call::event_destroy& x) {
  if (self.broker_) [[unlikely]]
    self.broker_->withdraw({share_kind::event, x.event.id.value});
  state().remove(x.event.id);
  times().destroyed(x.event.id);
  return dev().destroy_event(x.event.id);
}

status call_dispatch::operator()(const call::event_record& x) {
  times().recorded(x.event.id);
  if (self.replayed_waits_.any()) [[unlikely]]
    self.replayed_waits_.recorded(ordinal, x.event.id, x.stream.id);
  return dev().record_event(x.event.id, x.stream.id);
}

status call_dispatch::operator()(const call::stream_wait& x) {
  if (self.replayed_waits_.any()) [[unlikely]]
    self.replayed_waits_.waits(dev(), {ordinal, x.stream.id}, ordinal,
                               x.event.id);
  return dev().wait_event(x.stream.id, x.event.id);
}

/// Devices know nothing of each other: the stream stops, and goes on when the
/// other one tells that the event's latest record, as of now, is done.
status call_dispatch::operator()(const call::peer_wait& x) {
  if (x.device >= self.devices_.size())
    return fault{CUDA_ERROR_INVALID_DEVICE,
                 "device " + std::to_string(x.device) + " does not exist"};
  event_id event{x.event};
  if (auto ok = self.states_[x.device].audit(call::live<event_id>{event}); !ok)
    return ok;
  if (self.replayed_waits_.any()) [[unlikely]]
    self.replayed_waits_.waits(dev(), {ordinal, x.stream.id}, x.device, event);
  auto recorded = std::make_shared<latch>();
  self.devices_[x.device]->when_recorded(
      event, [recorded](CUresult) { recorded->open(); });
  return dev().enqueue_host(x.stream.id,
                            [recorded](std::function<void()> go_on) {
                              recorded->when_open(std::move(go_on));
                            });
}

status call_dispatch::operator()(const call::stream_sync& x) {
  auto known = is_answered();
  dev().when_done(x.stream.id, completion(idle_after(x.stream.id)));
  return known ? host_behind_stream(x.stream.id) : status{};
}

status call_dispatch::operator()(const call::device_sync&) {
  auto known = is_answered();
  dev().when_done(std::nullopt, completion(idle_after(std::nullopt)));
  return known ? host_behind_all() : status{};
}

status call_dispatch::operator()(const call::event_sync& x) {
  auto known = is_answered();
  dev().when_recorded(x.event.id, completion());
  return known ? host_behind_event(x.event.id) : status{};
}

status call_dispatch::operator()(const call::elapsed& x) {
  for (auto event : {x.from.id, x.to.id}) {
    auto done = dev().query_event(event);
    if (!done)
      return done.why();
    if (!*done)
      return fault{CUDA_ERROR_NOT_READY, "an event is not reached yet"};
  }
  auto time = times().elapsed(dev(), x.from.id, x.to.id);
  if (!time)
    return time.why();
  self.sink_->answer(who(), CUDA_SUCCESS, std::bit_cast<std::uint32_t>(*time));
  return {};
}

status call_dispatch::operator()(const call::host_call& x) {
  // What lets the stream go on may be enqueued later.
  if (!waits_in_replay(x.stream.id)) {
    auto before = order().mark(dev(), x.stream.id);
    if (!before)
      return before.why();
    self.before_host_calls_.emplace(what.call.value, *before);
  }
  return call_program(x.stream.id);
}

status call_dispatch::operator()(const call::host_begun& x) {
  auto before = self.before_host_calls_.extract(x.call);
  if (before.empty())
    return {};
  auto done = dev().query_event(before.mapped());
  if (!done)
    return done.why();
  return *done ? dev().destroy_event(before.mapped())
               : host_learned(order().host_behind(dev(), before.mapped()));
}

status call_dispatch::catch_up() {
  for (std::size_t d = 0; d < self.devices_.size(); ++d)
    for (auto stream : self.states_[d].streams()) {
      if (self.replayed_waits_.any()) [[unlikely]]
        follow_order(d, stream);
      if (auto ok = self.orders_[d].join(*self.devices_[d], stream,
                                         self.states_[d].streams());
          !ok)
        return ok;
    }
  return {};
}

status call_dispatch::call_program(stream_id stream) {
  if (auto ok = catch_up(); !ok)
    return ok;
  ++self.open_host_calls_;
  return dev().enqueue_host(stream,
                            [calls = self.host_calls_, sink = self.sink_,
                             who = who()](std::function<void()> go_on) {
                              calls->begin(who.call, std::move(go_on));
                              sink->call_host(who);
                            });
}

status call_dispatch::operator()(const call::host_done& x) {
  if (self.open_host_calls_ != 0)
    --self.open_host_calls_;
  self.open_waits_.erase(x.call);
  // Where no function of the program was run.
  if (auto before = self.before_host_calls_.extract(x.call); !before.empty())
    if (auto ok = dev().destroy_event(before.mapped()); !ok)
      return ok;
  if (self.replayed_waits_.any()) [[unlikely]] {
    std::vector<replayed_waits::streams_of> all;
    for (std::size_t d = 0; d < self.devices_.size(); ++d) {
      const auto& streams = self.states_[d].streams();
      all.push_back({self.devices_[d].get(), {streams.begin(), streams.end()}});
    }
    if (self.replayed_waits_.end(call_number{x.call}, all))
      return {};
  }
  self.host_calls_->finish(x.call);
  return {};
}

status call_dispatch::operator()(const call::wait_value& x) {
  awaited_value wanted{x.address, x.value, x.bytes,
                       static_cast<value_test>(x.test)};
  auto is_memory = [&](auto& state) { return state.holds(x.address, x.bytes); };
  if (!wanted.is_sound() ||
      std::none_of(self.states_.begin(), self.states_.end(), is_memory))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "a wait for a value of " + std::to_string(x.bytes) +
                     " bytes at " + std::to_string(x.address) +
                     ", where no such word was allocated"};
  auto* unit = self.value_units_[ordinal];
  if (unit == nullptr)
    return fault{CUDA_ERROR_NOT_SUPPORTED,
                 "this device's streams cannot wait for values"};
  if (auto ok = catch_up(); !ok)
    return ok;
  self.open_waits_.insert(what.call.value);
  replayed_waits::place in{ordinal, x.stream.id};
  auto blocking = self.blocking_[ordinal].contains(x.stream.id);
  if (is_answered()) {
    ++self.open_host_calls_;
    return self.replayed_waits_.begin(dev(), in, what.call, blocking);
  }
  // Also where none is open: one may follow that had ended before this.
  if (what.call.value < self.replay_until_ || self.replayed_waits_.any())
      [[unlikely]]
    self.replayed_waits_.stops(dev(), in, what.call, blocking);
  if (auto ok = unit->enqueue_wait(x.stream.id, wanted); !ok)
    return ok;
  return call_program(x.stream.id);
}

void call_dispatch::follow_order(std::size_t device, stream_id stream) {
  auto& waits = self.replayed_waits_;
  auto& on = *self.devices_[device];
  replayed_waits::place in{device, stream};
  if (self.orders_[device].awaits_all(stream))
    for (auto other : self.states_[device].streams())
      waits.waits(on, in, other);
  else if (self.orders_[device].awaits_legacy(stream))
    waits.waits(on, in, legacy_stream);
}

void call_dispatch::follow_waits(stream_id stream) {
  auto& waits = self.replayed_waits_;
  const auto& blocking = self.blocking_[ordinal];
  follow_order(ordinal, stream);
  if (blocking.contains(stream))
    waits.waits(dev(), {ordinal, stream}, legacy_stream);
  if (stream != legacy_stream)
    return;
  for (auto other : blocking)
    waits.waits(dev(), {ordinal, legacy_stream}, other);
  // All that comes in these streams from now on waits for what comes here.
  for (auto other : blocking)
    waits.waits(dev(), {ordinal, other}, legacy_stream);
}

} // namespace vgpu
