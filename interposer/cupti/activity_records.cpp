#include "interposer/cupti/activity_records.hpp"

namespace vgpu::cupti {

namespace {

using interposer::activity;
using interposer::memory_place;

memory_kind memory_of(memory_place x) noexcept {
  switch (x) {
  case memory_place::pageable:
    return memory_kind::pageable;
  case memory_place::pinned:
    return memory_kind::pinned;
  case memory_place::device:
    break;
  }
  return memory_kind::device;
}

copy_kind direction_of(const activity& x) noexcept {
  auto from_device = x.from == memory_place::device;
  auto to_device = x.to == memory_place::device;
  if (from_device)
    return to_device ? copy_kind::device_to_device : copy_kind::device_to_host;
  return to_device ? copy_kind::host_to_device : copy_kind::host_to_host;
}

/// Fills in what records of work have in common.
template <class Record>
void place(Record& out, const activity& x, const tool_clock& clock) noexcept {
  out.start = clock.of(x.began);
  out.end = clock.of(x.ended);
  out.device = x.device;
  out.context = x.context;
  out.stream = x.stream;
  out.correlation = x.correlation;
}

} // namespace

kernel_record kernel_of(const activity& x, const tool_clock& clock, kind as,
                        bool latencies) noexcept {
  kernel_record out;
  place(out, x, clock);
  out.what = as;
  out.completed = out.end;
  out.registers = static_cast<std::uint16_t>(x.registers);
  for (auto i = 0; i < 3; ++i) {
    out.grid[i] = static_cast<std::int32_t>(x.grid[i]);
    out.block[i] = static_cast<std::int32_t>(x.block[i]);
    out.cluster[i] = x.cluster[i];
  }
  out.static_shared = static_cast<std::int32_t>(x.static_shared);
  out.dynamic_shared = static_cast<std::int32_t>(x.dynamic_shared);
  out.local_per_thread = x.local;
  out.grid_id = x.correlation;
  out.name = x.name;
  if (latencies) {
    out.queued = clock.of(x.called);
    out.submitted = clock.of(x.submitted);
  }
  return out;
}

copy_record copy_of(const activity& x, const tool_clock& clock) noexcept {
  copy_record out;
  place(out, x, clock);
  out.direction = direction_of(x);
  out.from = memory_of(x.from);
  out.to = memory_of(x.to);
  out.flags = x.is_async != 0 ? asynchronous : 0;
  out.bytes = x.bytes;
  return out;
}

peer_copy_record peer_copy_of(const activity& x,
                              const tool_clock& clock) noexcept {
  peer_copy_record out;
  place(out, x, clock);
  out.flags = x.is_async != 0 ? asynchronous : 0;
  out.bytes = x.bytes;
  out.from_device = x.from_device;
  out.to_device = x.device;
  out.from_context = out.to_context = x.context;
  return out;
}

fill_record fill_of(const activity& x, const tool_clock& clock) noexcept {
  fill_record out;
  place(out, x, clock);
  out.value = x.value;
  out.bytes = x.bytes;
  out.flags = x.is_async != 0 ? asynchronous : 0;
  out.memory = static_cast<std::uint16_t>(memory_of(x.to));
  return out;
}

wait_record wait_of(const activity& x, const tool_clock& clock) noexcept {
  wait_record out;
  out.type = static_cast<std::uint32_t>(x.waits_for);
  out.start = clock.of(x.began);
  out.end = clock.of(x.ended);
  out.correlation = x.correlation;
  out.context = x.context;
  out.stream = x.stream;
  out.result = x.result;
  return out;
}

call_record call_of(const activity& x, const tool_clock& clock, kind as,
                    std::uint32_t function) noexcept {
  call_record out;
  out.what = as;
  out.function = function;
  out.start = clock.of(x.began);
  out.end = clock.of(x.ended);
  out.process = x.process;
  out.thread = x.thread;
  out.correlation = x.correlation;
  out.result = x.result;
  return out;
}

} // namespace vgpu::cupti
