#include "actors/worker/execute/module_facts_message.hpp"

#include "schema/wire/data.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>

namespace vgpu {

namespace {

auto count(const auto& list) {
  return static_cast<unsigned>(list.size());
}

void set_kernel(wire::KernelFacts::Builder to, const device::kernel_info& x) {
  to.setName(x.name);
  auto parameters = to.initParameters(count(x.parameters));
  for (unsigned i = 0; i < parameters.size(); ++i) {
    parameters[i].setOffset(x.parameters[i].offset);
    parameters[i].setSize(x.parameters[i].size);
  }
  auto attributes = to.initAttributes(count(x.attributes));
  unsigned i = 0;
  for (auto& [key, value] : x.attributes) {
    attributes[i].setKey(key);
    attributes[i++].setValue(value);
  }
}

} // namespace

std::vector<std::uint64_t> encode_facts(const device::module_info& module) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::ModuleFacts>();
  auto kernels = root.initKernels(count(module.kernels));
  for (unsigned i = 0; i < kernels.size(); ++i)
    set_kernel(kernels[i], module.kernels[i]);
  auto globals = root.initGlobals(count(module.globals));
  for (unsigned i = 0; i < globals.size(); ++i) {
    auto& x = module.globals[i];
    globals[i].setName(x.name);
    globals[i].setAddress(x.address);
    globals[i].setBytes(x.bytes);
    globals[i].setManaged(x.managed);
  }
  auto words = capnp::messageToFlatArray(message);
  std::vector<std::uint64_t> flat(words.size());
  std::memcpy(flat.data(), words.begin(), words.size() * sizeof(capnp::word));
  return flat;
}

} // namespace vgpu
