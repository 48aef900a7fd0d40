#include "actors/worker/execute/dispatch_order.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace vgpu {

namespace {

/// Lets a stream of one device wait for one of another, because events are a
/// device's own here.
class meeting {
public:
  void wait(std::function<void()> go_on) {
    std::unique_lock guard{lock_};
    if (!reached_) {
      go_on_ = std::move(go_on);
      return;
    }
    guard.unlock();
    go_on();
  }
  void reached() {
    std::unique_lock guard{lock_};
    reached_ = true;
    auto go_on = std::exchange(go_on_, nullptr);
    guard.unlock();
    if (go_on)
      go_on();
  }

private:
  std::mutex lock_;
  bool reached_ = false;
  std::function<void()> go_on_;
};

/// Makes later work in `later` wait for what is in `first`, of another device.
status behind(device::device& on, stream_id later, device::device& other,
              stream_id first) {
  auto place = std::make_shared<meeting>();
  // A failed device drops its work; nobody must wait for that.
  std::shared_ptr<void> token{nullptr, [place](void*) { place->reached(); }};
  if (auto ok = on.enqueue_host(later,
                                [place](std::function<void()> go_on) {
                                  place->wait(std::move(go_on));
                                });
      !ok)
    return ok;
  return other.enqueue_host(first,
                            [place, token](const std::function<void()>& go_on) {
                              place->reached();
                              go_on();
                            });
}

/// Returns whether anything is held, so that the order must be followed.
bool is_followed(const dispatch_context& on) {
  return on.session.waits.any() || on.session.known.any();
}

/// Records that the stream's next work follows everything in `other`, which may
/// follow an open wait or a function.
void follow(dispatch_context& on, device_slot& slot, stream_id stream,
            stream_id other) {
  replayed_waits::place in{slot.ordinal, stream};
  if (on.session.waits.any())
    on.session.waits.waits(*slot.device, in, other, slot.blocking);
  if (on.session.known.any())
    on.session.known.follows(in, {slot.ordinal, other});
}

/// Records what a stream must catch up with.
void follow_order(dispatch_context& on, device_slot& slot, stream_id stream) {
  if (slot.order.awaits_all(stream))
    for (auto other : slot.state.streams())
      follow(on, slot, stream, other);
  else if (slot.order.awaits_legacy(stream))
    follow(on, slot, stream, legacy_stream);
}

/// Does the same for what the stream waits for by CUDA's rules when it is used.
void follow_waits(dispatch_context& on, stream_id stream) {
  const auto& blocking = on.slot.blocking;
  follow_order(on, on.slot, stream);
  if (blocking.contains(stream))
    follow(on, on.slot, stream, legacy_stream);
  if (stream != legacy_stream)
    return;
  for (auto other : blocking)
    follow(on, on.slot, legacy_stream, other);
  // All later work in these streams waits for the work in this one.
  for (auto other : blocking)
    follow(on, on.slot, other, legacy_stream);
}

/// Makes the host's stream wait for a latch.
status host_behind(dispatch_context& on, const std::shared_ptr<latch>& work) {
  return on.device().enqueue_host(on.order().host_stream(),
                                  [work](std::function<void()> go_on) {
                                    work->when_open(std::move(go_on));
                                  });
}

/// Makes the host's stream wait for a stream of the program's.
status host_behind(dispatch_context& on, stream_id stream) {
  known_work::place in{on.slot.ordinal, stream};
  // The work that ends the wait may be enqueued later, and must not wait for
  // it.
  if (on.session.waits.stays(in))
    return {};
  if (!on.session.known.holds(in)) {
    // An event in the legacy stream would wait for a blocking stream's call,
    // and the other way round.
    if (auto work = on.session.waits.before(in); work)
      return host_behind(on, work);
    return on.order().host_behind(on.device(), stream);
  }
  auto mark = on.order().mark(on.device(), stream);
  if (!mark)
    return mark.why();
  on.session.known.learn_later(in, *mark);
  return {};
}

/// Orders all later work after what the host's stream of this device waits for.
/// That stream waits for no call that is open in the log, so later work may be
/// what ends one.
status learned_on(dispatch_context& on, device_slot& slot) {
  slot.order.after_host();
  auto own = slot.order.host_stream();
  if (slot.device->idle(own))
    return {};
  for (auto& other : on.session.devices) {
    if (&other == &slot)
      continue;
    if (auto ok =
            behind(*other.device, other.order.host_stream(), *slot.device, own);
        !ok)
      return ok;
    other.order.after_host();
  }
  return {};
}

} // namespace

status join_stream(dispatch_context& on, stream_id stream) {
  if (is_followed(on)) [[unlikely]]
    follow_waits(on, stream);
  return on.order().join(on.device(), stream, on.state().streams());
}

status catch_up(dispatch_context& on) {
  for (auto& slot : on.session.devices) {
    auto& streams = slot.state.streams();
    for (auto stream : streams) {
      // The host's stream waits for nothing that is open, so the next use of a
      // stream is early enough for that. Now it would put the legacy stream
      // and blocking ones behind one another's open calls.
      if (!slot.order.awaits_all(stream) && !slot.order.awaits_legacy(stream))
        continue;
      if (is_followed(on)) [[unlikely]]
        follow_order(on, slot, stream);
      if (auto ok = slot.order.join(*slot.device, stream, streams); !ok)
        return ok;
    }
    if (auto kept = slot.order.kept_stream(); kept && is_followed(on))
      follow_order(on, slot, *kept);
    if (auto ok = slot.order.keep_for_new_streams(*slot.device, streams); !ok)
      return ok;
  }
  return {};
}

status begin_stream(dispatch_context& on, stream_id stream) {
  if (on.order().is_left_out(stream))
    return {};
  if (auto kept = on.order().kept_stream(); kept && is_followed(on))
    follow(on, on.slot, stream, *kept);
  if (is_followed(on) && on.slot.blocking.contains(stream))
    follow(on, on.slot, stream, legacy_stream);
  return on.order().begin(on.device(), stream);
}

status host_learned(dispatch_context& on, status ok) {
  return ok ? learned_on(on, on.slot) : ok;
}

status host_behind_known(dispatch_context& on, const known_work::freed& x) {
  for (auto& [ordinal, event] : x.unused)
    if (auto ok = on.session.devices[ordinal].device->destroy_event(event); !ok)
      return ok;
  for (auto& [ordinal, event] : x.known) {
    auto& slot = on.session.devices[ordinal];
    if (auto ok = slot.order.host_behind(*slot.device, event); !ok)
      return ok;
    if (auto ok = learned_on(on, slot); !ok)
      return ok;
  }
  return {};
}

status host_behind_stream(dispatch_context& on, stream_id stream) {
  return host_learned(on, host_behind(on, stream));
}

status host_behind_all(dispatch_context& on) {
  for (auto stream : on.state().streams())
    if (auto ok = host_behind(on, stream); !ok)
      return ok;
  return host_learned(on, {});
}

status host_behind_event(dispatch_context& on, event_id event) {
  if (on.session.waits.stays(on.slot.ordinal, event))
    return {};
  if (known_work::event_place held{on.slot.ordinal, event};
      on.session.known.holds(held)) {
    on.session.known.learn_later(held);
    return {};
  }
  return host_learned(on,
                      on.device().wait_event(on.order().host_stream(), event));
}

} // namespace vgpu
