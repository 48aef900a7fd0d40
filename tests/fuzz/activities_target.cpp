// Turns a file of traced activities into trace events.
#include "fuzz_target.hpp"
#include "nodes/cli/trace_events.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <sstream>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream in{{reinterpret_cast<const char*>(data), size}};
  command::trace_events events;
  if (!events.add(in))
    return 0;
  std::ostringstream out;
  (void)events.write(out);
  // A viewer can read what was written.
  if (nlohmann::json::parse(out.str(), nullptr, false).is_discarded())
    std::abort();
  return 0;
}
