// Reads a worker's answer to the loading of a module, in the program.
#include "fuzz_target.hpp"
#include "interposer/code/module_facts.hpp"

#include <cstdlib>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A context needs a session; nothing looks into this one.
  alignas(
      interposer::context) static std::byte owner[sizeof(interposer::context)];
  interposer::module into{*reinterpret_cast<interposer::context*>(owner)};
  if (!interposer::read_module_facts(test::as_bytes(data, size), into))
    return 0;
  // A launch copies each parameter into a block of this size.
  for (auto& x : into.functions)
    for (auto p : x->parameters)
      if (p.offset > x->parameter_bytes ||
          p.size > x->parameter_bytes - p.offset)
        std::abort();
  return 0;
}
