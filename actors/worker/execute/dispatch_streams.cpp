// Calls for streams, events and host functions.
#include "actors/worker/execute/call_dispatch.hpp"
#include "actors/worker/execute/dispatch_order.hpp"
#include "actors/worker/session/latch.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

namespace vgpu {

namespace {

/// Stops the stream until the program has appended host_done.
status call_program(dispatch_context& on, stream_id stream) {
  // Late copies follow such a call. What they lack comes now, where it can.
  if (on.session.functions.open == 0 && on.slot.late_rooms.lacks())
    (void)on.slot.late_rooms.prepare(on.device());
  ++on.session.functions.open;
  on.session.functions.calls->enqueued(on.what.call);
  return on.device().enqueue_host(
      stream, [calls = on.session.functions.calls, sink = on.session.sink,
               who = on.who()](std::function<void()> go_on) {
        calls->begin(who.call, std::move(go_on));
        sink->call_host(who);
      });
}

/// Lets the stream of a host_call continue at once. Where the call stands in a
/// replay, the stream continues when the work is done that the program knew to
/// be done, because the function may have waited for that, and when the work of
/// the stream `after` is done.
status let_go_on(dispatch_context& on, std::uint64_t call,
                 std::optional<stream_id> after) {
  std::vector<stream_id> earlier;
  if (after && on.is_replayed())
    earlier.push_back(*after);
  if (call < on.session.replay_until && on.order().uses_host_stream())
    earlier.push_back(on.order().host_stream());
  auto missing = std::make_shared<std::atomic<std::size_t>>(earlier.size() + 1);
  auto one = [calls = on.session.functions.calls, call, missing](CUresult) {
    if (missing->fetch_sub(1) == 1)
      calls->finish(call);
  };
  for (auto stream : earlier)
    on.device().when_done(stream, one);
  one(CUDA_SUCCESS);
  return {};
}

/// Ends a host_call or a wait for a value.
status end_host_call(dispatch_context& on, std::uint64_t call,
                     std::optional<stream_id> after) {
  if (call < on.session.restored_at)
    return {}; // it had ended in the state
  if (on.session.functions.open != 0)
    --on.session.functions.open;
  on.session.functions.open_waits.erase(call);
  // This holds where no function of the program was run.
  if (auto before = on.session.functions.stood_at.extract(call);
      !before.empty())
    if (auto ok = on.device().destroy_event(before.mapped()); !ok)
      return ok;
  // What the program learns by this end is behind the call.
  if (!on.session.end_replayed_wait(call_number{call}))
    if (auto ok = let_go_on(on, call, after); !ok)
      return ok;
  if (!on.session.known.any()) [[likely]]
    return {};
  return host_behind_known(on, on.session.known.ends(call_number{call}));
}

/// Records that an event was recorded in a stream that a function may hold. In
/// a replay the program may have waited for this record, and recorded the event
/// again before the log tells the function's end.
status note_record(dispatch_context& on, const call::event_record& x) {
  known_work::place in{on.slot.ordinal, x.stream.id};
  std::optional<event_id> copy;
  if (on.is_replayed() && on.session.known.holds(in)) {
    auto mark = on.order().mark(on.device(), x.stream.id);
    if (!mark)
      return mark.why();
    copy = *mark;
  }
  auto unused =
      on.session.known.recorded({on.slot.ordinal, x.event.id}, in, copy);
  return unused ? on.device().destroy_event(*unused) : status{};
}

} // namespace

status execute_call(dispatch_context& on, const call::stream_create& x) {
  on.state().add(x.stream.id);
  if (x.non_blocking == 0)
    on.slot.blocking.insert(x.stream.id);
  if (x.non_blocking == call::stream_create::apart) {
    on.order().leave_out(x.stream.id);
    // The program makes such a stream before its first late copies, which also
    // find out where there is no memory.
    (void)on.slot.late_rooms.prepare(on.device());
  }
  if (auto ok = on.made(on.device().create_stream(
          x.stream.id, x.non_blocking != 0, x.priority));
      !ok)
    return ok;
  return begin_stream(on, x.stream.id);
}

status execute_call(dispatch_context& on, const call::stream_destroy& x) {
  on.state().remove(x.stream.id);
  on.order().forget(x.stream.id);
  on.slot.blocking.erase(x.stream.id);
  on.session.pending.destroyed(on.device(), {on.slot.ordinal, x.stream.id});
  return on.device().destroy_stream(x.stream.id);
}

status execute_call(dispatch_context& on, const call::event_create& x) {
  on.state().add(x.event.id);
  on.times().created(x.event.id, x.timing != 0);
  return on.made(on.device().create_event(x.event.id, x.timing != 0));
}

status execute_call(dispatch_context& on, const call::event_destroy& x) {
  if (on.session.broker) [[unlikely]]
    on.session.broker->withdraw({share_kind::event, x.event.id.value});
  on.state().remove(x.event.id);
  on.times().destroyed(x.event.id);
  return on.device().destroy_event(x.event.id);
}

status execute_call(dispatch_context& on, const call::event_record& x) {
  on.times().recorded(x.event.id);
  if (on.session.waits.any()) [[unlikely]]
    on.session.waits.recorded(on.slot.ordinal, x.event.id, x.stream.id);
  if (auto ok = on.device().record_event(x.event.id, x.stream.id); !ok)
    return ok;
  return on.session.known.any() ? note_record(on, x) : status{};
}

status execute_call(dispatch_context& on, const call::stream_wait& x) {
  if (on.session.waits.any()) [[unlikely]]
    on.session.waits.waits(on.device(), {on.slot.ordinal, x.stream.id},
                           on.slot.ordinal, x.event.id, on.slot.blocking);
  if (on.session.known.any()) [[unlikely]]
    on.session.known.follows({on.slot.ordinal, x.stream.id},
                             {on.slot.ordinal, x.event.id});
  return on.device().wait_event(x.stream.id, x.event.id);
}

/// Lets a stream wait for another device's event. Devices do not know each
/// other's events: the stream stops until the other device reports that the
/// event's latest record is done.
status execute_call(dispatch_context& on, const call::peer_wait& x) {
  if (x.device >= on.session.devices.size())
    return cuda_fault(CUDA_ERROR_INVALID_DEVICE,
                      "device " + std::to_string(x.device) + " does not exist");
  event_id event{x.event};
  auto& other = on.session.devices[x.device];
  if (auto ok = other.state.audit(call::live<event_id>{event}); !ok)
    return ok;
  if (on.session.waits.any()) [[unlikely]]
    on.session.waits.waits(on.device(), {on.slot.ordinal, x.stream.id},
                           x.device, event, on.slot.blocking);
  if (on.session.known.any()) [[unlikely]]
    on.session.known.follows({on.slot.ordinal, x.stream.id}, {x.device, event});
  auto recorded = std::make_shared<latch>();
  other.device->when_recorded(event,
                              [recorded](CUresult) { recorded->open(); });
  return on.device().enqueue_host(x.stream.id,
                                  [recorded](std::function<void()> go_on) {
                                    recorded->when_open(std::move(go_on));
                                  });
}

status execute_call(dispatch_context& on, const call::stream_sync& x) {
  auto known = on.is_answered();
  on.device().when_done(x.stream.id,
                        on.completion(on.slot.idle_after(x.stream.id)));
  return known ? host_behind_stream(on, x.stream.id) : status{};
}

status execute_call(dispatch_context& on, const call::device_sync&) {
  auto known = on.is_answered();
  on.device().when_done(std::nullopt,
                        on.completion(on.slot.idle_after(std::nullopt)));
  return known ? host_behind_all(on) : status{};
}

status execute_call(dispatch_context& on, const call::event_sync& x) {
  auto known = on.is_answered();
  on.device().when_recorded(x.event.id, on.completion());
  return known ? host_behind_event(on, x.event.id) : status{};
}

status execute_call(dispatch_context& on, const call::elapsed& x) {
  for (auto event : {x.from.id, x.to.id}) {
    auto done = on.device().query_event(event);
    if (!done)
      return done.why();
    if (!*done)
      return cuda_fault(CUDA_ERROR_NOT_READY, "an event is not reached yet");
  }
  auto time = on.times().elapsed(on.device(), x.from.id, x.to.id);
  if (!time)
    return time.why();
  on.answer(std::bit_cast<std::uint32_t>(*time));
  return {};
}

status execute_call(dispatch_context& on, const call::host_call& x) {
  auto before = on.order().mark(on.device(), x.stream.id);
  if (!before)
    return before.why();
  on.session.functions.stood_at.emplace(on.what.call.value, *before);
  if (auto ok = catch_up(on); !ok)
    return ok;
  if (on.is_replayed()) {
    replayed_waits::place in{on.slot.ordinal, x.stream.id};
    on.session.known.opens(in, on.what.call);
    on.session.waits.stands(on.device(), in, on.what.call, on.slot.blocking);
  }
  return call_program(on, x.stream.id);
}

status execute_call(dispatch_context& on, const call::host_begun& x) {
  auto before = on.session.functions.stood_at.extract(x.call);
  if (before.empty())
    return {};
  auto done = on.device().query_event(before.mapped());
  if (!done)
    return done.why();
  return *done ? on.device().destroy_event(before.mapped())
               : host_learned(
                     on, on.order().host_behind(on.device(), before.mapped()));
}

status execute_call(dispatch_context& on, const call::host_done& x) {
  return end_host_call(on, x.call, std::nullopt);
}

status execute_call(dispatch_context& on, const call::host_ended& x) {
  return end_host_call(on, x.call, x.after.id);
}

status execute_call(dispatch_context& on, const call::wait_value& x) {
  awaited_value wanted{x.address, x.value, x.bytes,
                       static_cast<value_test>(x.test)};
  auto is_memory = [&](auto& slot) {
    return slot.state.holds(x.address, x.bytes);
  };
  if (!wanted.is_sound() || std::none_of(on.session.devices.begin(),
                                         on.session.devices.end(), is_memory))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a wait for a value of " + std::to_string(x.bytes) +
                          " bytes at " + std::to_string(x.address) +
                          ", where no such word was allocated");
  auto* unit = on.slot.can.value;
  if (unit == nullptr)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "this device's streams cannot wait for values");
  if (auto ok = catch_up(on); !ok)
    return ok;
  on.session.functions.open_waits.insert(on.what.call.value);
  replayed_waits::place in{on.slot.ordinal, x.stream.id};
  const auto& blocking = on.slot.blocking;
  if (on.is_answered()) {
    ++on.session.functions.open;
    // A call by which the program learned that later work is done may stand in
    // the log before the wait's end.
    on.session.known.opens(in, on.what.call);
    return on.session.waits.begin(on.device(), in, on.what.call, blocking);
  }
  // This also applies where no wait is open, because one may follow that had
  // ended before.
  if (on.what.call.value < on.session.replay_until || on.session.waits.any())
      [[unlikely]]
    on.session.waits.stops(on.device(), in, on.what.call, blocking);
  if (auto ok = unit->enqueue_wait(x.stream.id, wanted); !ok)
    return ok;
  return call_program(on, x.stream.id);
}

} // namespace vgpu
