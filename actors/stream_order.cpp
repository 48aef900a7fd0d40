#include "actors/stream_order.hpp"

#include <algorithm>

namespace vgpu {

status stream_order::join(device::device& on, stream_id stream,
                          const std::unordered_set<stream_id>& streams) {
  if (now_ == 0)
    return {};
  auto& seen = seen_[stream];
  auto since = std::exchange(seen, now_);
  if (since < all_) {
    for (auto other : streams)
      if (auto ok = wait_for(on, stream, other); !ok)
        return ok;
    return {};
  }
  return since < legacy_ ? wait_for(on, stream, legacy_stream) : status{};
}

/// Later work of the other stream may be waited for as well; never work that
/// waits for this stream's future.
status stream_order::wait_for(device::device& on, stream_id stream,
                              stream_id other) {
  if (other == stream || on.idle(other))
    return {};
  event_id event{next_event_++};
  if (auto ok = on.create_event(event, false); !ok)
    return ok;
  if (auto ok = on.record_event(event, other); !ok)
    return ok;
  if (auto ok = on.wait_event(stream, event); !ok)
    return ok;
  return on.destroy_event(event);
}

} // namespace vgpu
