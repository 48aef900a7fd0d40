#include "schema/base/sizes.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace vgpu {

namespace {

constexpr std::string_view units = "KMGT";

/// Returns the exponent of 1024, or -1 when the unit is unknown.
int power_of(std::string_view unit) {
  if (unit.empty() || unit == "B")
    return 0;
  auto letter = static_cast<char>(unit[0] & ~0x20); // upper case
  auto at = units.find(letter);
  auto rest = unit.substr(1);
  auto known = rest.empty() || rest == "iB" || rest == "B" || rest == "i";
  return at == std::string_view::npos || !known ? -1 : static_cast<int>(at) + 1;
}

} // namespace

result<std::uint64_t> parse_size(const std::string& text) {
  auto fail = [&](const char* why) {
    return fault{fault_kind::usage, "size '" + text + "': " + why +
                                        "; write for example 512MiB or 4G"};
  };
  auto number = 0.0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number))
    return fail("it does not begin with a number");
  auto power = power_of({end, text.data() + text.size()});
  if (power < 0)
    return fail("its unit is none of K, M, G, T, KiB, MiB, GiB, TiB");
  auto bytes = number * std::pow(1024.0, power);
  if (bytes < 1)
    return fail("it must be more than nothing");
  if (bytes >= std::pow(2.0, 60))
    return fail("it is too large");
  return static_cast<std::uint64_t>(bytes);
}

std::string show_size(std::uint64_t bytes) {
  static constexpr std::array names{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  auto unit = 0u;
  for (; value >= 1024 && unit + 1 < names.size(); ++unit)
    value /= 1024;
  char out[32];
  std::snprintf(out, sizeof(out), unit == 0 ? "%.0f %s" : "%.1f %s", value,
                names[unit]);
  return out;
}

} // namespace vgpu
