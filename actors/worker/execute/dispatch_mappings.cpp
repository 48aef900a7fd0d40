// Memory that the program places by itself, and managed memory.
#include "actors/worker/execute/call_dispatch.hpp"

namespace vgpu {

// -- physical memory and its addresses

status call_dispatch::operator()(const call::memory_create& x) {
  if (memories() == nullptr)
    return no_memories();
  if (auto ok = state().audit_memory(x.bytes); !ok)
    return ok;
  auto ok = memories()->create_memory(x.memory.id, x.bytes);
  if (ok.code() == CUDA_ERROR_OUT_OF_MEMORY && wait_for_device())
    ok = memories()->create_memory(x.memory.id, x.bytes);
  if (!ok)
    return ok;
  state().add(x.memory.id, x.bytes);
  self.used_ += x.bytes;
  return {};
}

status call_dispatch::operator()(const call::memory_destroy& x) {
  if (self.broker_) [[unlikely]]
    self.broker_->withdraw({share_kind::placed, x.memory.id.value});
  if (auto ok = memories()->destroy_memory(x.memory.id); !ok)
    return ok;
  self.used_ -= state().release(x.memory.id);
  count_left();
  return {};
}

status call_dispatch::operator()(const call::memory_map& x) {
  if (auto ok = state().audit_map(x); !ok)
    return ok;
  if (auto ok = memories()->map_memory(x.address, x.bytes, x.memory.id); !ok)
    return ok;
  state().map(x);
  return {};
}

status call_dispatch::operator()(const call::memory_unmap& x) {
  if (auto ok = state().audit_mapping(x.address, x.bytes); !ok)
    return ok;
  // The program has waited for its work; a replay has not.
  if (!wait_for_device())
    return fault{CUDA_ERROR_LAUNCH_TIMEOUT,
                 "work that uses memory which is unmapped does not end"};
  order().after_all();
  if (auto ok = memories()->unmap_memory(x.address, x.bytes); !ok)
    return ok;
  self.used_ -= state().unmap(x.address);
  return {};
}

status call_dispatch::operator()(const call::memory_access& x) {
  if (auto ok = state().audit_mapping(x.address, x.bytes); !ok)
    return ok;
  auto access = static_cast<vgpu::memory_access>(x.access);
  if (access != vgpu::memory_access::none &&
      access != vgpu::memory_access::read &&
      access != vgpu::memory_access::read_write)
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "there is no access of kind " + std::to_string(x.access)};
  if (auto ok = memories()->set_access(x.address, x.bytes, access); !ok)
    return ok;
  state().set_access(x.address, access);
  return {};
}

// -- words by which graphs choose

status call_dispatch::set_conditions(memory_id memory, device_address address,
                                     device_address place) {
  auto* unit = self.condition_units_[ordinal];
  if (unit == nullptr)
    return fault{CUDA_ERROR_NOT_SUPPORTED,
                 "this device's kernels cannot set conditions"};
  if (auto ok = state().audit_mapping(address, condition_bytes); !ok)
    return ok;
  if (!is_condition_place(place))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "conditions cannot lie at " + std::to_string(place)};
  return unit->set_conditions_in(memory, address, place);
}

/// What was answered once is not chosen anew: condition_words tells it.
status call_dispatch::operator()(const call::condition_place& x) {
  if (is_answered())
    return {};
  status refused;
  for (auto first : condition_places) {
    auto place = first + ordinal * condition_bytes;
    refused = set_conditions(x.memory.id, x.address, place);
    if (!refused)
      continue;
    self.sink_->answer(who(), CUDA_SUCCESS, place);
    return {};
  }
  return refused;
}

status call_dispatch::operator()(const call::condition_words& x) {
  return set_conditions(x.memory.id, x.address, x.place);
}

// -- managed memory

status call_dispatch::operator()(const call::read_managed& x) {
  if (x.bytes == 0 || !state().holds(x.address, x.bytes))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "managed memory that is read was not allocated"};
  auto stream = order().host_stream(dev());
  if (!stream)
    return stream.why();
  if (!self.sink_->wanted(who()))
    return {};
  auto place = self.sink_->land(x.to, x.bytes);
  if (!place)
    return place.why();
  return dev().enqueue_read(
      *stream, place->bytes.first(x.bytes), x.address,
      [sink = self.sink_, health = self.health_, who = who(), place = *place,
       bytes = x.bytes, offset = x.to.offset](CUresult result) {
        if (health->note(*sink, result))
          sink->deliver(who, result, bytes, place, offset, 0);
      });
}

status call_dispatch::operator()(const call::write_managed& x) {
  if (x.bytes != what.payload.size() || !state().holds(x.address, x.bytes))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "managed memory that is written was not allocated"};
  auto stream = order().host_stream(dev());
  if (!stream)
    return stream.why();
  if (x.bytes == 0)
    return {};
  order().after_host();
  return dev().enqueue_write(
      *stream, x.address, what.payload,
      payload_pins::pin(self.pins_, what.call.value, owner));
}

} // namespace vgpu
