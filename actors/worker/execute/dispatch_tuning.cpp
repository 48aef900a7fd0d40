// Limits of kernels, hints for caches, and tracing.
#include "actors/worker/execute/call_dispatch.hpp"

#include "actors/link/log.hpp"
#include "schema/base/cuda_fault.hpp"

#include <bit>

namespace vgpu {

namespace {

bool is_property(std::uint32_t x) {
  return x <= CU_ACCESS_PROPERTY_PERSISTING;
}

/// Checks a window as cuStreamSetAttribute does. Its addresses are a hint: the
/// device touches no memory because of them.
status check_window(const dispatch_context& on, const call::stream_window& x) {
  auto ratio = std::bit_cast<float>(x.ratio);
  if (!(ratio >= 0 && ratio <= 1) || !is_property(x.hit) ||
      !is_property(x.miss) || x.miss == CU_ACCESS_PROPERTY_PERSISTING)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "no access-policy window can be made of this");
  if (x.bytes != 0 &&
      (!on.slot.in_window(x.base) || !on.slot.in_window(x.base + x.bytes - 1)))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "an access-policy window lies outside of the session's "
                      "addresses");
  return {};
}

} // namespace

/// Answers with the size of the heap, which counts against the quota.
status execute_call(dispatch_context& on, const call::limit_set& x) {
  if (x.limit >= CU_LIMIT_MAX)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "no such limit");
  if (auto* unit = on.slot.can.tuning; unit != nullptr) {
    // Running kernels may still allocate in the heap that there is.
    if (x.limit == CU_LIMIT_MALLOC_HEAP_SIZE && !on.wait_for_device())
      return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                        "kernels that may use the heap do not end");
    auto heap = unit->set_limit(static_cast<CUlimit>(x.limit), x.value);
    if (!heap)
      return heap.why();
    if (*heap)
      on.slot.note_heap(**heap);
    on.session.account.measure_side_memory();
  }
  on.answer(on.state().heap_bytes());
  return {};
}

status execute_call(dispatch_context& on, const call::limits_reset&) {
  auto* unit = on.slot.can.tuning;
  if (unit == nullptr)
    return {};
  if (!on.state().modules().empty())
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "limits are reset while modules are loaded");
  (void)on.wait_for_device();
  if (auto heap = unit->reset_limits(); heap)
    on.slot.note_heap(*heap);
  on.session.account.measure_side_memory();
  return {};
}

status execute_call(dispatch_context& on, const call::stream_window& x) {
  if (auto ok = check_window(on, x); !ok)
    return ok;
  auto* unit = on.slot.can.tuning;
  if (unit == nullptr)
    return {};
  CUaccessPolicyWindow window{};
  window.base_ptr = reinterpret_cast<void*>(x.base);
  window.num_bytes = x.bytes;
  window.hitRatio = std::bit_cast<float>(x.ratio);
  window.hitProp = static_cast<CUaccessProperty>(x.hit);
  window.missProp = static_cast<CUaccessProperty>(x.miss);
  return unit->set_window(x.stream.id, window);
}

status execute_call(dispatch_context& on, const call::cache_reset&) {
  auto* unit = on.slot.can.tuning;
  return unit == nullptr ? status{} : unit->reset_cache();
}

status execute_call(dispatch_context& on, const call::time_work& x) {
  on.session.work.record(x.on != 0);
  for (auto& slot : on.session.devices)
    if (auto* unit = slot.can.trace; unit != nullptr)
      if (auto ok = unit->record(x.on != 0); !ok)
        spdlog::info("Work is timed by events: {}", ok.why().what);
  return {};
}

} // namespace vgpu
