// Calls for memory that the program places by itself, and for managed memory.
#include "actors/worker/execute/call_dispatch.hpp"

namespace vgpu {

namespace {

/// Lets kernels set the conditions in this memory, whose handles are at
/// `place`.
status set_conditions(dispatch_context& on, memory_id memory,
                      device_address address, device_address place) {
  auto* unit = on.slot.can.condition;
  if (unit == nullptr)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "this device's kernels cannot set conditions");
  if (auto ok = on.state().audit_mapping(address, condition_bytes); !ok)
    return ok;
  if (!is_condition_place(place))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "conditions cannot lie at " + std::to_string(place));
  auto ok = unit->set_conditions_in(memory, address, place);
  if (ok)
    on.session.cover.leave_out(address, condition_bytes);
  return ok;
}

} // namespace

// -- physical memory and its addresses

status execute_call(dispatch_context& on, const call::memory_create& x) {
  if (on.slot.can.memory == nullptr)
    return no_memory_unit();
  if (auto ok = on.state().audit_memory(x.bytes); !ok)
    return ok;
  auto ok = on.slot.can.memory->create_memory(x.memory.id, x.bytes);
  if (cuda_code(ok) == CUDA_ERROR_OUT_OF_MEMORY && on.wait_for_device())
    ok = on.slot.can.memory->create_memory(x.memory.id, x.bytes);
  if (!ok)
    return on.made(ok);
  on.state().add(x.memory.id, x.bytes);
  on.session.account.add_bytes(x.bytes);
  return {};
}

status execute_call(dispatch_context& on, const call::memory_destroy& x) {
  if (on.session.broker) [[unlikely]]
    on.session.broker->withdraw({share_kind::placed, x.memory.id.value});
  if (auto ok = on.slot.can.memory->destroy_memory(x.memory.id); !ok)
    return ok;
  on.session.account.take_bytes(on.state().release(x.memory.id));
  on.count_left();
  return {};
}

status execute_call(dispatch_context& on, const call::memory_map& x) {
  if (auto ok = on.state().audit_map(x); !ok)
    return ok;
  if (auto ok = on.made(
          on.slot.can.memory->map_memory(x.address, x.bytes, x.memory.id));
      !ok)
    return ok;
  on.state().map(x);
  return {};
}

status execute_call(dispatch_context& on, const call::host_map& x) {
  if (on.slot.can.memory == nullptr)
    return no_memory_unit();
  if (!on.session.host.holds(x.host, x.bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "pinned memory does not lie in the host window");
  if (auto ok = on.state().audit_map(x); !ok)
    return ok;
  if (auto ok =
          on.made(on.slot.can.memory->map_host(x.address, x.bytes, x.host));
      !ok)
    return ok;
  on.state().map(x);
  return {};
}

status execute_call(dispatch_context& on, const call::memory_unmap& x) {
  on.session.cover.include(x.address);
  if (auto ok = on.state().audit_mapping(x.address, x.bytes); !ok)
    return ok;
  // The program has waited for this memory's work, but a replay has not.
  if (!on.wait_for_device())
    return cuda_fault(CUDA_ERROR_LAUNCH_TIMEOUT,
                      "work that uses memory which is unmapped does not end");
  on.order().after_all();
  if (auto ok = on.slot.can.memory->unmap_memory(x.address, x.bytes); !ok)
    return ok;
  on.session.account.take_bytes(on.state().unmap(x.address));
  return {};
}

status execute_call(dispatch_context& on, const call::memory_access& x) {
  if (auto ok = on.state().audit_mapping(x.address, x.bytes); !ok)
    return ok;
  auto access = static_cast<vgpu::memory_access>(x.access);
  if (access != vgpu::memory_access::none &&
      access != vgpu::memory_access::read &&
      access != vgpu::memory_access::read_write)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "there is no access of kind " + std::to_string(x.access));
  if (on.state().mappings().at(x.address).access != vgpu::memory_access::none)
    if (auto ok = on.await_users(); !ok)
      return ok;
  if (auto ok = on.slot.can.memory->set_access(x.address, x.bytes, access); !ok)
    return ok;
  on.state().set_access(x.address, access);
  return {};
}

// -- words by which graphs choose

/// Chooses handles, except in a replay: there condition_words has the former
/// ones.
status execute_call(dispatch_context& on, const call::condition_place& x) {
  if (on.is_answered())
    return {};
  status refused;
  for (auto first : condition_places) {
    auto place = first + on.slot.ordinal * condition_bytes;
    refused = set_conditions(on, x.memory.id, x.address, place);
    if (!refused)
      continue;
    on.answer(place);
    return {};
  }
  return refused;
}

status execute_call(dispatch_context& on, const call::condition_words& x) {
  return on.made(set_conditions(on, x.memory.id, x.address, x.place));
}

// -- managed memory

status execute_call(dispatch_context& on, const call::read_managed& x) {
  if (x.bytes == 0 || !on.state().holds(x.address, x.bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "managed memory that is read was not allocated");
  auto stream = on.order().host_stream();
  if (on.is_answered())
    return {};
  auto place = on.session.sink->land(x.to, x.bytes);
  if (!place)
    return place.why();
  return on.device().enqueue_read(
      stream, place->bytes.first(x.bytes), x.address,
      [sink = on.session.sink, health = on.session.health, who = on.who(),
       place = *place, bytes = x.bytes, offset = x.to.offset](CUresult result) {
        if (health->note(*sink, result))
          sink->deliver(who, result, bytes,
                        result == CUDA_SUCCESS ? place : landing{}, offset, 0);
      });
}

status execute_call(dispatch_context& on, const call::write_managed& x) {
  if (x.bytes != on.what.payload.size() ||
      !on.state().holds(x.address, x.bytes))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "managed memory that is written was not allocated");
  auto stream = on.order().host_stream();
  if (x.bytes == 0)
    return {};
  on.order().after_managed_write();
  return on.device().enqueue_write(
      stream, x.address, on.what.payload,
      payload_pins::pin(on.session.pins, on.what.call.value, on.owner));
}

} // namespace vgpu
