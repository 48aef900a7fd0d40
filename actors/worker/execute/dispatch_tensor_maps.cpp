// Tensor maps. The device's driver encodes them for the program.
#include "actors/worker/execute/call_dispatch.hpp"

#include <algorithm>

namespace vgpu {

status execute_call(dispatch_context& on, const call::tensor_map_encode& x) {
  auto* maker = on.slot.can.tensor_map;
  if (maker == nullptr)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "this device has no tensor maps");
  if (!x.what.is_sound() || x.to.bytes < sizeof(tensor_map))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "no tensor map can be made of this");
  auto wanted = !on.is_answered();
  if (!wanted && on.what.digest == 0)
    return {};
  auto map = maker->encode(x.what);
  if (!map)
    return map.why();
  auto bytes = std::span<const std::byte>{*map};
  if (!wanted) {
    // The program has the bytes that another driver made, and continues with
    // them. A difference must be reported.
    on.session.checks->compare(on.what.call, {on.what.digest, {}},
                               fold_digest(row_hash(bytes)));
    return {};
  }
  auto place = on.session.sink->land(x.to, bytes.size());
  if (!place)
    return place.why();
  std::copy(bytes.begin(), bytes.end(), place->bytes.begin());
  on.session.sink->deliver(on.who(), CUDA_SUCCESS, bytes.size(), *place,
                           x.to.offset, on.digest_of(bytes));
  return {};
}

} // namespace vgpu
