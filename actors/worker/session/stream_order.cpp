#include "actors/worker/session/stream_order.hpp"

#include <algorithm>

namespace vgpu {

namespace {

// These do not clash with programs' streams.
constexpr stream_id hosts_stream{std::uint64_t{1} << 63};
constexpr stream_id kept_for_new{hosts_stream.value + 1};

} // namespace

status stream_order::make_objects(device::device& on) {
  auto ok = on.create_stream(hosts_stream, true, 0);
  if (ok)
    ok = on.create_stream(kept_for_new, true, 0);
  return ok ? on.create_event(between, false) : ok;
}

stream_id stream_order::host_stream() noexcept {
  uses_host_stream_ = true;
  return hosts_stream;
}

status stream_order::host_behind(device::device& on, stream_id other) {
  return wait_for(on, host_stream(), other);
}

result<event_id> stream_order::mark(device::device& on, stream_id stream) {
  event_id event{next_event_++};
  if (auto ok = on.create_event(event, false); !ok)
    return ok.why();
  if (auto ok = on.record_event(event, stream); !ok)
    return ok.why();
  return event;
}

status stream_order::host_behind(device::device& on, event_id mark) {
  if (auto ok = on.wait_event(host_stream(), mark); !ok)
    return ok;
  return on.destroy_event(mark);
}

status stream_order::join(device::device& on, stream_id stream,
                          const std::unordered_set<stream_id>& streams) {
  if (now_ == 0)
    return {};
  auto& seen = seen_[stream];
  auto since = std::exchange(seen, now_);
  auto left_out = is_left_out(stream);
  if (since < (left_out ? managed_ : host_))
    if (auto ok = wait_for(on, stream, hosts_stream); !ok)
      return ok;
  if (left_out)
    return {};
  if (since < all_) {
    for (auto other : streams)
      if (auto ok = wait_for(on, stream, other); !ok)
        return ok;
    return {};
  }
  return since < legacy_ ? wait_for(on, stream, legacy_stream) : status{};
}

status stream_order::keep_for_new_streams(
    device::device& on, const std::unordered_set<stream_id>& streams) {
  if (since(kept_for_new) == now_)
    return {};
  uses_kept_stream_ = true;
  return join(on, kept_for_new, streams);
}

status stream_order::begin(device::device& on, stream_id stream) {
  if (!uses_kept_stream_)
    return {};
  seen_[stream] = since(kept_for_new);
  return wait_for(on, stream, kept_for_new);
}

std::optional<stream_id> stream_order::kept_stream() const {
  return uses_kept_stream_ ? std::optional{kept_for_new} : std::nullopt;
}

/// Makes `stream` wait for `other`, perhaps also for later work of `other`, but
/// never for work that waits for this stream's future.
status stream_order::wait_for(device::device& on, stream_id stream,
                              stream_id other) {
  if (other == stream || on.idle(other))
    return {};
  auto ok = on.record_event(between, other);
  return ok ? on.wait_event(stream, between) : ok;
}

} // namespace vgpu
