// Feeds damaged fatbins and PTX to the path from an image to a program.
#include "devices/cpu/fatbin.hpp"
#include "devices/cpu/lowering.hpp"
#include "devices/cpu/ptx_parser.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace vgpu::device::cpu;
  auto text = ptx_of(std::as_bytes(std::span{data, size}), 90);
  if (!text)
    return 0;
  try {
    auto m = ptx::parse(*text);
    auto addresses = symbol_addresses{};
    for (auto& v : m.variables)
      addresses[v.name] = 4096;
    lower(m, addresses);
  } catch (const ptx::syntax_error&) {
    // What it says of most inputs.
  }
  return 0;
}
