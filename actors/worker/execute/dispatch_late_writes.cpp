// Copies to the device whose bytes the program sends when their stream has come
// to them.
#include "actors/worker/execute/call_dispatch.hpp"
#include "actors/worker/execute/copy_box.hpp"
#include "actors/worker/execute/dispatch_order.hpp"
#include "schema/log/call_log.hpp"

#include <algorithm>

namespace vgpu {

static_assert(max_payload <= late_rooms::largest);

namespace {

/// Stops the stream until bytes are in the copy's room, and lets the stream
/// itself copy them from there. So no other stream has to do anything for it.
status enqueue_late(dispatch_context& on, const call::late_write& x,
                    const late_writes::gate& what) {
  auto& device = on.device();
  status ok;
  for (const auto& piece : what->pieces()) {
    ok = device.enqueue_host(x.stream.id, [what](std::function<void()> go_on) {
      what->reached(std::move(go_on));
    });
    if (!ok)
      break;
    auto to = pitched(x.to);
    to.address += piece.y * to.pitch + piece.x;
    ok = device.enqueue_copy(x.stream.id, to, {what->address(), piece.width, 0},
                             {piece.width, piece.height, 1});
    if (!ok)
      break;
  }
  device.when_done(x.stream.id, [held = what->room()](CUresult) {});
  return ok;
}

} // namespace

status execute_call(dispatch_context& on, const call::late_write& x) {
  if (auto ok = audit_box(on, x.to, x.size); !ok)
    return ok;
  auto bytes = x.size.width * x.size.height;
  if (x.size.depth != 1 || bytes == 0 || x.size.width > max_payload ||
      bytes > max_payload)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a copy whose bytes come late is empty, or too large");
  if (auto ok = catch_up(on); !ok)
    return ok;
  auto room = on.slot.late_rooms.take(on.device(), x.stream.id, bytes);
  if (!room)
    return room.why();
  auto flat = is_flat(x.to, x.size);
  auto what = std::make_shared<late_write_gate>(
      std::move(*room), flat ? bytes : x.size.width, flat ? 1 : x.size.height);
  on.session.late_writes->add(on.what.call.value, what);
  ++on.session.functions.open;
  return enqueue_late(on, x, what);
}

status execute_call(dispatch_context& on, const call::late_bytes& x) {
  if (x.call < on.session.restored_at)
    return {}; // the state has them
  auto pinned =
      payload_pins::pin(on.session.pins, on.what.call.value, on.owner);
  if (!on.session.late_writes->give(x.call, on.what.payload, std::move(pinned)))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "bytes came for a copy that does not wait for them");
  if (on.session.functions.open != 0)
    --on.session.functions.open;
  return {};
}

} // namespace vgpu
