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

/// Records in replayed_waits what a stream must catch up with, which may follow
/// an open wait.
void follow_order(dispatch_context& on, device_slot& slot, stream_id stream) {
  auto& waits = on.session.waits;
  replayed_waits::place in{slot.ordinal, stream};
  if (slot.order.awaits_all(stream))
    for (auto other : slot.state.streams())
      waits.waits(*slot.device, in, other);
  else if (slot.order.awaits_legacy(stream))
    waits.waits(*slot.device, in, legacy_stream);
}

/// Does the same for what the stream waits for by CUDA's rules when it is used.
void follow_waits(dispatch_context& on, stream_id stream) {
  auto& waits = on.session.waits;
  auto ordinal = on.slot.ordinal;
  const auto& blocking = on.slot.blocking;
  follow_order(on, on.slot, stream);
  if (blocking.contains(stream))
    waits.waits(on.device(), {ordinal, stream}, legacy_stream);
  if (stream != legacy_stream)
    return;
  for (auto other : blocking)
    waits.waits(on.device(), {ordinal, legacy_stream}, other);
  // All later work in these streams waits for the work in this one.
  for (auto other : blocking)
    waits.waits(on.device(), {ordinal, other}, legacy_stream);
}

/// Makes the host's stream wait for a stream of the program's.
status host_behind(dispatch_context& on, stream_id stream) {
  // The work that ends the wait may be enqueued later, and must not wait for
  // it.
  if (waits_in_replay(on, stream))
    return {};
  return on.order().host_behind(on.device(), stream);
}

} // namespace

status join_stream(dispatch_context& on, stream_id stream) {
  if (on.session.waits.any()) [[unlikely]]
    follow_waits(on, stream);
  return on.order().join(on.device(), stream, on.state().streams());
}

status catch_up(dispatch_context& on) {
  for (auto& slot : on.session.devices) {
    auto& streams = slot.state.streams();
    for (auto stream : streams) {
      if (on.session.waits.any()) [[unlikely]]
        follow_order(on, slot, stream);
      if (auto ok = slot.order.join(*slot.device, stream, streams); !ok)
        return ok;
    }
    if (auto kept = slot.order.kept_stream(); kept && on.session.waits.any())
      follow_order(on, slot, *kept);
    if (auto ok = slot.order.keep_for_new_streams(*slot.device, streams); !ok)
      return ok;
  }
  return {};
}

status begin_stream(dispatch_context& on, stream_id stream) {
  if (on.order().is_left_out(stream))
    return {};
  if (auto kept = on.order().kept_stream(); kept && on.session.waits.any())
    on.session.waits.waits(on.device(), {on.slot.ordinal, stream}, *kept);
  return on.order().begin(on.device(), stream);
}

status host_learned(dispatch_context& on, status ok) {
  // Where a stream waits for a value, later calls of the log may write it. So
  // nothing may be ordered after that stream.
  if (!ok || !on.session.functions.open_waits.empty())
    return ok;
  on.order().after_host();
  auto own = on.order().host_stream(on.device());
  if (!own || on.device().idle(*own))
    return own ? status{} : own.why();
  for (auto& slot : on.session.devices) {
    if (&slot == &on.slot)
      continue;
    auto theirs = slot.order.host_stream(*slot.device);
    ok = theirs ? behind(*slot.device, *theirs, on.device(), *own)
                : status{theirs.why()};
    if (!ok)
      return ok;
    slot.order.after_host();
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
  if (on.session.waits.holds(on.slot.ordinal, event))
    return {};
  auto own = on.order().host_stream(on.device());
  return own ? host_learned(on, on.device().wait_event(*own, event))
             : own.why();
}

} // namespace vgpu
