// Launches, copies and fills.
#include "actors/worker/execute/call_dispatch.hpp"
#include "actors/worker/execute/copy_box.hpp"

#include <algorithm>
#include <vector>

namespace vgpu {

namespace {

device::dim3 dim(const call::dim3& x) {
  return {x.x, x.y, x.z};
}

/// Tells whether an attribute is only a hint. All others have fields of their
/// own in call::launch, or are calls of their own.
bool is_launch_hint(const launch_hint& x) {
  switch (x.attribute) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
  case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
  case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
    return true;
  default:
    return false;
  }
}

} // namespace

status execute_call(dispatch_context& on, const call::active_clusters& x) {
  if (x.kernel >= on.state().module(x.module.id).kernels)
    return no_such_kernel(x.kernel);
  auto count = on.device().active_clusters({.module = x.module.id,
                                            .kernel = x.kernel,
                                            .grid = dim(x.grid),
                                            .block = dim(x.block),
                                            .cluster = dim(x.cluster),
                                            .dynamic_shared = x.dynamic_shared,
                                            .parameters = {}});
  if (!count)
    return count.why();
  on.answer(*count);
  return {};
}

status execute_call(dispatch_context& on, const call::launch& x) {
  if (x.kernel >= on.state().module(x.module.id).kernels)
    return no_such_kernel(x.kernel);
  auto parameters = x.bytes;
  std::vector<launch_hint> hints;
  if ((x.flags & call::launch::hinted) != 0 &&
      (!take_hints(x.bytes, parameters, hints) ||
       !std::ranges::all_of(hints, is_launch_hint)))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "the hints of a launch are malformed");
  return on.device().enqueue_launch(
      x.stream.id, {.module = x.module.id,
                    .kernel = x.kernel,
                    .grid = dim(x.grid),
                    .block = dim(x.block),
                    .cluster = dim(x.cluster),
                    .dynamic_shared = x.dynamic_shared,
                    .cooperative = (x.flags & call::launch::cooperative) != 0,
                    .parameters = parameters,
                    .hints = hints});
}

status execute_call(dispatch_context& on, const call::write& x) {
  if (auto ok = audit_box(on, x.to, x.size); !ok)
    return ok;
  if (on.what.payload.size() != x.size.width * rows(x.size))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a copy's bytes do not match its size");
  on.settle(x.stream.id);
  auto pinned =
      payload_pins::pin(on.session.pins, on.what.call.value, on.owner);
  return each_row(
      x.to, x.size,
      [&](device_address at, std::uint64_t offset, std::uint64_t bytes, bool) {
        return on.device().enqueue_write(
            x.stream.id, at, on.what.payload.subspan(offset, bytes), pinned);
      });
}

status execute_call(dispatch_context& on, const call::copy& x) {
  if (auto ok = audit_box(on, x.to, x.size); !ok)
    return ok;
  if (auto ok = audit_box(on, x.from, x.size); !ok)
    return ok;
  on.settle(x.stream.id);
  return on.device().enqueue_copy(x.stream.id, pitched(x.to), pitched(x.from),
                                  extent(x.size));
}

status execute_call(dispatch_context& on, const call::fill& x) {
  if (x.element_bytes != 1 && x.element_bytes != 2 && x.element_bytes != 4)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "memset takes elements of 1, 2 or 4 bytes");
  auto bytes = x.size;
  if (__builtin_mul_overflow(bytes.width, x.element_bytes, &bytes.width))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "memset of an impossible size");
  if (auto ok = audit_box(on, x.to, bytes); !ok)
    return ok;
  on.settle(x.stream.id);
  return on.device().enqueue_fill(x.stream.id, pitched(x.to), x.value,
                                  x.element_bytes, extent(x.size));
}

} // namespace vgpu
