// Reads the trace of a simulation, and the fields of a vGPU's specification.
#include "fuzz_target.hpp"
#include "policies/simulator/trace.hpp"

#include <cstdlib>
#include <sstream>
#include <string>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text{reinterpret_cast<const char*>(data), size};
  control::specification spec;
  auto cut = text.find('=');
  (void)control::set_field(spec, text.substr(0, cut),
                           cut == std::string::npos ? text
                                                    : text.substr(cut + 1));
  std::istringstream in{text};
  auto got = simulator::read_trace(in, "input");
  if (!got)
    return 0;
  // A trace that was read, written again, means the same.
  std::ostringstream out;
  simulator::write_trace(out, *got);
  std::istringstream back{out.str()};
  auto again = simulator::read_trace(back, "again");
  if (!again || again->size() != got->size())
    std::abort();
  return 0;
}
