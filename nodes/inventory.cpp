#include "nodes/inventory.hpp"

#include "devices/cpu/cpu_device.hpp"

#include <functional>

namespace vgpu {

namespace {

control::device_facts facts_of(const device::properties& x) {
  control::device_facts out;
  out.name = x.name;
  out.uuid = x.uuid;
  out.total_memory = x.total_memory;
  out.attributes = {x.attributes.begin(), x.attributes.end()};
  return out;
}

/// Nodes number their devices alike; their UUIDs must differ all the same.
void mark_with(control::device_facts& facts, const std::string& node) {
  auto mark = std::hash<std::string>{}(node);
  for (auto& x : facts.uuid) {
    x ^= static_cast<std::byte>(mark);
    mark = mark >> 8 | mark << 56;
  }
}

std::vector<control::pgpu> cpu_pgpus(const inventory_options& x) {
  std::vector<control::pgpu> out;
  for (auto i = 0u; i < x.gpus; ++i) {
    device::cpu_options shape;
    shape.ordinal = static_cast<int>(i);
    shape.memory = x.memory;
    auto facts = facts_of(device::cpu_properties(shape));
    mark_with(facts, x.node);
    out.push_back({i, "cpu", std::move(facts), "healthy"});
  }
  return out;
}

} // namespace

result<std::vector<control::pgpu>> take_inventory(const inventory_options& x) {
  if (x.device == "cpu" || x.device == "auto")
    return cpu_pgpus(x);
  if (x.device == "nvidia")
    return fault{CUDA_ERROR_NO_DEVICE,
                 "device nvidia: this build has no nvidia backend; use "
                 "--device cpu"};
  return fault{CUDA_ERROR_INVALID_VALUE,
               "device '" + x.device + "': give cpu, nvidia or auto"};
}

} // namespace vgpu
