// Makes a program of the cpu device from an image: reads fatbin, cubin or PTX
// text, parses and lowers it.
#include "devices/cpu/lower/lowering.hpp"
#include "devices/cpu/ptx/ptx_link.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"
#include "devices/interface/fatbin.hpp"
#include "fuzz_target.hpp"

using namespace vgpu;
namespace cpu = vgpu::device::cpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr unsigned arch = 90;
  auto texts = device::ptx_of(test::as_bytes(data, size), arch);
  if (!texts)
    return 0;
  try {
    std::vector<cpu::ptx::module> parts;
    for (auto& text : *texts)
      parts.push_back(cpu::ptx::parse(text));
    auto module = cpu::ptx::link(std::move(parts));
    cpu::symbol_addresses addresses;
    for (auto& x : module.variables)
      addresses.emplace(x.name, (addresses.size() + 1) << 20);
    (void)cpu::lower(module, addresses);
  } catch (const cpu::ptx::syntax_error&) {
    // A program gets this as CUDA_ERROR_INVALID_PTX.
  }
  return 0;
}
