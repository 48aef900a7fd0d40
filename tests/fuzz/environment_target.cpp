// Reads what variables of a program's environment say.
#include "fuzz_target.hpp"
#include "interposer/session/visible_devices.hpp"
#include "schema/base/busy_poll.hpp"
#include "schema/base/sizes.hpp"
#include "schema/wire/specification.hpp"

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A variable ends at its first NUL.
  std::string text{reinterpret_cast<const char*>(data), size};
  text.resize(std::strlen(text.c_str()));
  static const auto devices = [] {
    std::vector<interposer::device_facts> out(3);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i].uuid.fill(static_cast<std::uint8_t>(i / 2 + 0x89));
    return out;
  }();
  auto seen = interposer::visible_devices(text, devices);
  if (seen) {
    std::set<std::uint8_t> each{seen->begin(), seen->end()};
    if (seen->empty() || each.size() != seen->size() ||
        *each.rbegin() >= devices.size())
      std::abort();
  }
  (void)interposer::is_device_order(text);
  (void)choose_busy_poll(text.c_str(), 8);
  (void)parse_size(text);
  // Each field of a specification has a variable.
  for (const auto& field : control::specification_fields()) {
    control::specification spec;
    if (!control::set_field(spec, field.name, text))
      continue;
    // What was taken, shown again, means the same.
    control::specification again;
    if (!control::set_field(again, field.name, field.get(spec)) ||
        field.get(again) != field.get(spec))
      std::abort();
  }
  return 0;
}
