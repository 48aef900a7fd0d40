// CUPTI's activity functions.
#include "interposer/cupti/activity_buffers.hpp"
#include "interposer/cupti/call_watch.hpp"
#include "interposer/cupti/cupti_entry.hpp"
#include "interposer/cupti/tool.hpp"

#include <algorithm>
#include <cstring>

using namespace vgpu::cupti;

namespace {

/// Returns whether this library makes records of the kind. CUPTI permits some
/// more, of which a program that does not use such things has none.
bool has_records(std::uint32_t x) noexcept {
  switch (static_cast<kind>(x)) {
  case kind::memcpy:
  case kind::memset:
  case kind::kernel:
  case kind::driver:
  case kind::runtime:
  case kind::device:
  case kind::context:
  case kind::concurrent_kernel:
  case kind::memcpy_between_devices:
  case kind::synchronization:
  case kind::external_correlation:
    return true;
  case kind::invalid:
    break;
  }
  return false;
}

/// Kinds without records here of which tools expect that they can be enabled:
/// names, markers, overhead, environment, modules, functions, streams, events,
/// memory and graphs.
bool is_silent(std::uint32_t x) noexcept {
  constexpr std::uint32_t all[] = {11, 12, 13, 17, 20, 26, 27,
                                   36, 37, 45, 48, 49, 50, 51};
  return std::find(std::begin(all), std::end(all), x) != std::end(all);
}

code set_kind(std::uint32_t what, bool on) {
  if (what == 0 || what >= kind_count)
    return code::invalid_kind;
  if (!has_records(what))
    return is_silent(what) || !on ? code::success : code::not_supported;
  auto& x = here();
  std::lock_guard guard{x.mutex};
  x.kinds[what] = on;
  return apply_wishes(x);
}

} // namespace

VGPU_CUPTI(cuptiActivityEnable)(std::uint32_t what) {
  return entry([&] { return set_kind(what, true); });
}
VGPU_CUPTI(cuptiActivityEnableAndDump)(std::uint32_t what) {
  return entry([&] { return set_kind(what, true); });
}
VGPU_CUPTI(cuptiActivityDisable)(std::uint32_t what) {
  return entry([&] {
    // Records of what was done until now stay to be flushed.
    (void)write_records();
    return set_kind(what, false);
  });
}
VGPU_CUPTI(cuptiActivityEnableContext)(CUcontext, std::uint32_t what) {
  return entry([&] { return set_kind(what, true); });
}
VGPU_CUPTI(cuptiActivityDisableContext)(CUcontext, std::uint32_t what) {
  return entry([&] { return set_kind(what, false); });
}

VGPU_CUPTI(cuptiActivityRegisterCallbacks)
(request_buffer request, complete_buffer complete) {
  return entry([&] {
    if (request == nullptr || complete == nullptr)
      return code::invalid_parameter;
    auto& x = here();
    std::lock_guard guard{x.mutex};
    x.request = request;
    x.complete = complete;
    return code::success;
  });
}

VGPU_CUPTI(cuptiActivityFlushAll)(std::uint32_t) {
  return entry([] { return flush_all(); });
}
VGPU_CUPTI(cuptiActivityFlush)(CUcontext, std::uint32_t, std::uint32_t) {
  return entry([] { return flush_all(); });
}
VGPU_CUPTI(cuptiActivityFlushPeriod)(std::uint32_t milliseconds) {
  here().flush_ms = milliseconds;
  return code::success;
}

VGPU_CUPTI(cuptiActivityGetNextRecord)
(std::uint8_t* buffer, std::size_t valid, record_head** record) {
  if (buffer == nullptr || record == nullptr)
    return code::invalid_parameter;
  return next_record(buffer, valid, *record);
}

VGPU_CUPTI(cuptiActivityGetNumDroppedRecords)
(CUcontext, std::uint32_t, std::size_t* dropped) {
  if (dropped == nullptr)
    return code::invalid_parameter;
  *dropped = here().dropped.exchange(0);
  return code::success;
}

// The attributes are sizes of buffers on a device, of which there are none.
VGPU_CUPTI(cuptiActivityGetAttribute)
(std::uint32_t, std::size_t* size, void* value) {
  if (size == nullptr || value == nullptr)
    return code::invalid_parameter;
  if (*size < sizeof(std::uint32_t))
    return code::parameter_size_not_sufficient;
  std::memset(value, 0, *size);
  return code::success;
}
VGPU_CUPTI(cuptiActivitySetAttribute)
(std::uint32_t, std::size_t* size, void* value) {
  return size == nullptr || value == nullptr ? code::invalid_parameter
                                             : code::success;
}

VGPU_CUPTI(cuptiActivityPushExternalCorrelationId)
(std::uint32_t of, std::uint64_t id) {
  return entry([&] {
    if (of == 0 || of >= correlation_kinds)
      return code::invalid_parameter;
    push_external(of, id);
    return code::success;
  });
}
VGPU_CUPTI(cuptiActivityPopExternalCorrelationId)
(std::uint32_t of, std::uint64_t* last) {
  return entry([&] {
    if (of == 0 || of >= correlation_kinds)
      return code::invalid_parameter;
    auto id = pop_external(of);
    if (!id)
      return code::queue_empty;
    if (last != nullptr)
      *last = *id;
    return code::success;
  });
}

VGPU_CUPTI(cuptiActivityRegisterTimestampCallback)(read_clock clock) {
  return entry([&] {
    set_clock(clock);
    return code::success;
  });
}
VGPU_CUPTI(cuptiActivityEnableLatencyTimestamps)(std::uint8_t on) {
  here().wants_latency = on != 0;
  return code::success;
}

// -- wishes that change nothing here ------------------------------------------

VGPU_CUPTI(cuptiActivityEnableLaunchAttributes)(std::uint8_t) {
  return code::success;
}
VGPU_CUPTI(cuptiActivityEnableAllSyncRecords)(std::uint8_t) {
  return code::success;
}
VGPU_CUPTI(cuptiActivityEnableAllocationSource)(std::uint8_t) {
  return code::success;
}
VGPU_CUPTI(cuptiActivityEnableBufferSummary)(std::uint8_t) {
  return code::success;
}

// -- some functions -----------------------------------------------------------

namespace {

code choose(chosen_functions& of, std::uint32_t number, bool on) {
  if (number == 0 || number >= most_functions)
    return code::invalid_parameter;
  // Calls until now belong to the choice until now.
  (void)write_records();
  auto& x = here();
  std::lock_guard guard{x.mutex};
  of.choose(number, on);
  return apply_wishes(x);
}

} // namespace

VGPU_CUPTI(cuptiActivityEnableDriverApi)
(std::uint32_t number, std::uint8_t on) {
  return entry([&] { return choose(here().of_driver, number, on != 0); });
}
VGPU_CUPTI(cuptiActivityEnableRuntimeApi)
(std::uint32_t number, std::uint8_t on) {
  return entry([&] { return choose(here().of_runtime, number, on != 0); });
}
