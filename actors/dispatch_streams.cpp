// Streams, events and host functions.
#include "actors/call_dispatch.hpp"

#include <bit>

namespace vgpu {

status call_dispatch::operator()(const call::stream_create& x) {
  state().add(x.stream.id);
  return dev().create_stream(x.stream.id, x.non_blocking != 0, x.priority);
}

status call_dispatch::operator()(const call::stream_destroy& x) {
  state().remove(x.stream.id);
  order().forget(x.stream.id);
  return dev().destroy_stream(x.stream.id);
}

status call_dispatch::operator()(const call::event_create& x) {
  state().add(x.event.id);
  times().created(x.event.id, x.timing != 0);
  return dev().create_event(x.event.id, x.timing != 0);
}

status call_dispatch::operator()(const call::event_destroy& x) {
  state().remove(x.event.id);
  times().destroyed(x.event.id);
  return dev().destroy_event(x.event.id);
}

status call_dispatch::operator()(const call::event_record& x) {
  times().recorded(x.event.id);
  return dev().record_event(x.event.id, x.stream.id);
}

status call_dispatch::operator()(const call::stream_wait& x) {
  return dev().wait_event(x.stream.id, x.event.id);
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
  ++self.open_host_calls_;
  return dev().enqueue_host(x.stream.id,
                            [calls = self.host_calls_, sink = self.sink_,
                             who = who()](std::function<void()> go_on) {
                              calls->begin(who.call, std::move(go_on));
                              sink->call_host(who);
                            });
}

status call_dispatch::operator()(const call::host_done& x) {
  if (self.open_host_calls_ != 0)
    --self.open_host_calls_;
  self.host_calls_->finish(x.call);
  return {};
}

} // namespace vgpu
