#include "actors/worker/session/device_slot.hpp"

#include "actors/state/device_wait.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace vgpu {

device_capabilities device_capabilities::of(device::device& what) {
  device_capabilities out;
  auto query = [&]<class Unit>(Unit*& to) { to = dynamic_cast<Unit*>(&what); };
  query(out.memory);
  query(out.change);
  query(out.sharing);
  query(out.texture);
  query(out.value);
  query(out.timing);
  query(out.condition);
  query(out.tensor_map);
  query(out.tuning);
  query(out.file);
  query(out.trace);
  query(out.meter);
  return out;
}

device_slot::device_slot(std::unique_ptr<device::device> what,
                         std::size_t number, std::uint64_t quota)
    : ordinal(number), state(window_of(number), quota), device(std::move(what)),
      can(device_capabilities::of(*device)),
      host_meter(can.meter == nullptr ? std::make_unique<work_meter>(can.timing)
                                      : nullptr),
      meter(can.meter == nullptr ? host_meter.get() : can.meter) {
  auto ok = device->reserve_window(window_of(number));
  if (ok)
    ok = order.make_objects(*device);
  if (!ok)
    throw std::runtime_error{ok.why().what};
}

void device_slot::keep_for_good(
    const std::vector<device::global_info>& variables) {
  for (const auto& x : variables)
    if (x.name == device_heap_name)
      kept_for_good.push_back(x);
}

void device_slot::note_heap(const device::global_info& heap) {
  std::erase_if(kept_for_good, [&](auto& x) { return x.name == heap.name; });
  if (heap.bytes != 0)
    kept_for_good.push_back(heap);
  state.replace_variable(heap);
}

bool device_slot::in_window(device_address x) const noexcept {
  return device_at(x) == ordinal;
}

memory_ranges device_slot::contents() const {
  auto out = state.allocations();
  for (auto& [id, module] : state.modules())
    for (auto& x : module.globals)
      if (in_window(x.address))
        out[x.address] = x.bytes;
  for (auto& x : kept_for_good)
    out[x.address] = x.bytes;
  return out;
}

memory_ranges device_slot::outside_of_window() const {
  memory_ranges out;
  for (auto& [id, module] : state.modules())
    for (auto& x : module.globals)
      if (!in_window(x.address))
        out[x.address] = x.bytes;
  return out;
}

memory_ranges device_slot::lendable() const {
  auto out = state.allocations();
  for (auto& [id, x] : state.arrays())
    out.erase(x.address);
  return out;
}

status device_slot::look_through(memory_id memory, std::uint64_t bytes,
                                 const look& f) {
  auto at = state.free_place(bytes);
  if (!at)
    return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                      "no addresses are free to look at physical memory " +
                          std::to_string(memory.value));
  if (auto ok = can.memory->map_memory(*at, bytes, memory); !ok)
    return ok;
  auto ok = can.memory->set_access(*at, bytes, memory_access::read_write);
  for (std::uint64_t offset = 0; ok && offset != bytes;) {
    auto part = std::min(bytes - offset, state_batch_bytes);
    ok = f(*at + offset, offset, part);
    // This also holds after a fault, because earlier work may still run.
    auto idle = wait_for(*device, "copies of physical memory");
    if (ok)
      ok = idle;
    offset += part;
  }
  auto gone = can.memory->unmap_memory(*at, bytes);
  return ok ? gone : ok;
}

work_meter::done_mark device_slot::idle_after(std::optional<stream_id> stream) {
  return host_meter ? host_meter->proof(stream) : work_meter::done_mark{};
}

} // namespace vgpu
