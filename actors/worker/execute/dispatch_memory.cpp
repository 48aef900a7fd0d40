// Calls that make, end and describe memory: allocations, arrays, textures.
#include "actors/worker/execute/call_dispatch.hpp"

#include "actors/link/log.hpp"
#include "schema/base/round_up.hpp"

namespace vgpu {

namespace {

fault no_texture_unit() {
  return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                    "this device has no arrays or textures");
}

/// Maps all of a range, or nothing where the device has no memory left.
status map_range(dispatch_context& on, device_address address,
                 std::uint64_t bytes) {
  auto runs = on.state().allocate(address, bytes);
  for (auto run = runs.begin(); run != runs.end(); ++run) {
    auto ok = on.device().map(run->address, run->bytes);
    if (cuda_code(ok) == CUDA_ERROR_OUT_OF_MEMORY && on.wait_for_device())
      ok = on.device().map(run->address, run->bytes);
    if (ok)
      continue;
    while (run != runs.begin()) {
      --run;
      (void)on.device().unmap(run->address, run->bytes);
    }
    (void)on.state().release(address, bytes);
    return ok;
  }
  return {};
}

status unmap_range(dispatch_context& on, device_address address,
                   std::uint64_t bytes) {
  for (auto& run : on.state().release(address, bytes))
    if (auto ok = on.device().unmap(run.address, run.bytes); !ok)
      return ok;
  return {};
}

/// Gives up the addresses of an array, and the memory there.
status give_place(dispatch_context& on, device_address address,
                  std::uint64_t bytes) {
  if (on.slot.can.texture->arrays_in_memory())
    return unmap_range(on, address, bytes);
  on.state().unreserve(address, bytes);
  return {};
}

/// Orders later work after the work that used memory which is freed now. A
/// program gets the same addresses again only after a synchronisation, but a
/// replay does not wait there. Otherwise nothing may wait: the memory may be
/// freed in stream order, while another stream waits for the program.
void after_freed_memory(dispatch_context& on) {
  if (on.is_replayed())
    on.order().after_all();
}

} // namespace

status execute_call(dispatch_context& on, const call::mem_alloc& x) {
  if (auto ok = on.state().audit_alloc(x.address, x.bytes); !ok)
    return ok;
  if (auto ok = on.made(map_range(on, x.address, x.bytes)); !ok)
    return ok;
  on.session.account.add_bytes(x.bytes);
  return {};
}

status execute_call(dispatch_context& on, const call::mem_free& x) {
  if (auto ok = on.state().audit_free(x.address, x.bytes); !ok)
    return ok;
  after_freed_memory(on);
  if (on.session.broker) [[unlikely]]
    on.session.broker->withdraw({share_kind::memory, x.address});
  if (auto ok = unmap_range(on, x.address, x.bytes); !ok)
    return ok;
  on.session.account.take_bytes(x.bytes);
  on.count_left();
  return {};
}

status execute_call(dispatch_context& on, const call::host_alloc& x) {
  if (!on.session.host.holds(x.address, x.bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "pinned memory does not lie in the host window");
  return on.made(on.device().attach_host(x.address, x.bytes));
}

status execute_call(dispatch_context& on, const call::host_free& x) {
  if (!on.session.host.holds(x.address, x.bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "pinned memory does not lie in the host window");
  if (on.session.host.zero_copy())
    on.session.host.zero_copy()->forget(x.address);
  if (auto ok = on.await_users(); !ok)
    return ok;
  if (auto ok = on.device().detach_host(x.address, x.bytes); !ok)
    return ok;
  return on.session.host.files()
             ? on.session.host.files()->hide(x.address, x.bytes)
             : status{};
}

status execute_call(dispatch_context& on, const call::zero_copy& x) {
  if (x.bytes == 0 || x.address % changed_line::bytes != 0 ||
      !on.session.host.holds(x.address, x.bytes) ||
      !on.session.host.holds(x.address, round_up(x.bytes, changed_line::bytes)))
    return cuda_fault(
        CUDA_ERROR_INVALID_VALUE,
        "host memory that kernels use in place does not lie in the "
        "host window");
  if (!on.session.host.zero_copy())
    return {};
  return on.session.host.zero_copy()->watch(x.address, x.bytes,
                                            on.is_replayed());
}

/// Applies the program's writes. Kernels of a program on this host use its
/// memory itself. In a replay, earlier kernels have read the memory by the time
/// of this write.
status execute_call(dispatch_context& on, const call::zero_copy_write& x) {
  if (x.count != on.what.payload.size() / sizeof(changed_line))
    return cuda_fault(
        CUDA_ERROR_INVALID_VALUE,
        "what the program wrote to host memory is not as long as it "
        "says");
  if (!on.session.host.zero_copy())
    return {};
  if (on.is_replayed())
    if (auto ok = on.session.await_known(); !ok)
      return ok;
  return on.session.host.zero_copy()->write(lines_of(on.what.payload));
}

status execute_call(dispatch_context& on, const call::host_file& x) {
  auto ok =
      on.session.host.files()
          ? on.session.host.files()->show(x)
          : status{cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                              "the program is on another host, or its calls "
                              "are forwarded")};
  if (ok)
    ok = on.device().attach_host(x.address, x.bytes);
  if (!ok) {
    spdlog::warn("a file that the program registered: {}", ok.why().what);
    if (on.session.host.files())
      (void)on.session.host.files()->hide(x.address, x.bytes);
    return ok;
  }
  on.answer();
  return {};
}

status execute_call(dispatch_context& on, const call::array_create& x) {
  if (on.slot.can.texture == nullptr)
    return no_texture_unit();
  auto layout = layout_of(x.shape);
  if (!layout || layout->bytes != x.bytes)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "an array's size does not match its shape");
  if (auto ok = on.state().audit_alloc(x.address, x.bytes); !ok)
    return ok;
  if (!on.slot.can.texture->arrays_in_memory())
    on.state().reserve(x.address, x.bytes);
  else if (auto ok = on.made(map_range(on, x.address, x.bytes)); !ok)
    return ok;
  auto ok = on.slot.can.texture->create_array(x.array.id, x.shape, x.address);
  if (cuda_code(ok) == CUDA_ERROR_OUT_OF_MEMORY && on.wait_for_device())
    ok = on.slot.can.texture->create_array(x.array.id, x.shape, x.address);
  if (!ok) {
    (void)give_place(on, x.address, x.bytes);
    return on.made(ok);
  }
  on.state().add(x.array.id, {x.address, x.bytes, x.shape});
  on.session.account.add_bytes(x.bytes);
  return {};
}

status execute_call(dispatch_context& on, const call::array_destroy& x) {
  auto gone = on.state().arrays().at(x.array.id);
  after_freed_memory(on);
  if (auto ok = on.await_users(); !ok)
    return ok;
  if (auto ok = on.slot.can.texture->destroy_array(x.array.id); !ok)
    return ok;
  on.state().remove(x.array.id);
  on.session.account.take_bytes(gone.bytes);
  return give_place(on, gone.address, gone.bytes);
}

status execute_call(dispatch_context& on, const call::texture_create& x) {
  if (auto ok = on.state().audit_texture(x.what); !ok)
    return ok;
  if (on.slot.can.texture == nullptr)
    return no_texture_unit();
  auto value = on.slot.can.texture->create_texture(x.texture.id, x.what);
  if (!value)
    return value.why();
  on.state().add(x.texture.id, x.what);
  on.answer(*value);
  return {};
}

status execute_call(dispatch_context& on, const call::texture_known& x) {
  if (auto ok = on.slot.can.texture->name_texture(x.texture.id, x.value); !ok)
    return ok;
  on.state().know(x.texture.id, x.value);
  return {};
}

status execute_call(dispatch_context& on, const call::texture_destroy& x) {
  if (auto ok = on.await_users(); !ok)
    return ok;
  on.state().remove(x.texture.id);
  return on.slot.can.texture->destroy_texture(x.texture.id);
}

} // namespace vgpu
