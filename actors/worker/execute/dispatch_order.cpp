// What a replay does in order because the program had waited for it.
#include "actors/worker/execute/call_dispatch.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace vgpu {

namespace {

/// Where a stream of one device waits for one of another: events are a device's
/// own here.
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

/// What comes in `later` waits for what is in `first`, of another device.
status behind(device::device& on, stream_id later, device::device& other,
              stream_id first) {
  auto place = std::make_shared<meeting>();
  // Work of a device that failed is dropped, and nobody is to wait for it.
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

} // namespace

status call_dispatch::host_learned(status ok) {
  // Where a stream waits for a value, what the log brings next may be what
  // makes it: nothing is to come behind that stream then.
  if (!ok || !self.open_waits_.empty())
    return ok;
  order().after_host();
  auto own = order().host_stream(dev());
  if (!own || dev().idle(*own))
    return own ? status{} : own.why();
  for (std::size_t d = 0; d < self.devices_.size(); ++d) {
    if (d == ordinal)
      continue;
    auto theirs = self.orders_[d].host_stream(*self.devices_[d]);
    ok = theirs ? behind(*self.devices_[d], *theirs, dev(), *own)
                : status{theirs.why()};
    if (!ok)
      return ok;
    self.orders_[d].after_host();
  }
  return {};
}

status call_dispatch::host_behind(stream_id stream) {
  // What lets it go on may be enqueued later, and must not wait for this.
  if (waits_in_replay(stream))
    return {};
  return order().host_behind(dev(), stream);
}

status call_dispatch::host_behind_stream(stream_id stream) {
  return host_learned(host_behind(stream));
}

status call_dispatch::host_behind_all() {
  for (auto stream : state().streams())
    if (auto ok = host_behind(stream); !ok)
      return ok;
  return host_learned({});
}

status call_dispatch::host_behind_event(event_id event) {
  if (self.replayed_waits_.holds(ordinal, event))
    return {};
  auto own = order().host_stream(dev());
  return own ? host_learned(dev().wait_event(*own, event)) : own.why();
}

} // namespace vgpu
