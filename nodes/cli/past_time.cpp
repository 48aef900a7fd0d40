#include "nodes/cli/past_time.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>

namespace vgpu::command {

namespace {

double now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Parses an age such as `90s`, `15m`, `2h` or `7d`.
std::optional<double> read_ago(const std::string& text) {
  double count = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end + 1 != text.data() + text.size() ||
      !(count >= 0))
    return std::nullopt;
  auto unit = *end == 's'   ? 1.0
              : *end == 'm' ? 60.0
              : *end == 'h' ? 3'600.0
              : *end == 'd' ? 86'400.0
                            : 0.0;
  auto ago = count * unit;
  if (unit == 0 || !std::isfinite(ago))
    return std::nullopt;
  return std::max(now() - ago, 0.0);
}

/// Parses a day, a minute or a second by this host's clock.
std::optional<double> read_date(const std::string& text) {
  for (const auto* form : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S",
                           "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"}) {
    std::tm parts = {};
    parts.tm_isdst = -1;
    const auto* end = ::strptime(text.c_str(), form, &parts);
    if (end == nullptr || *end != '\0')
      continue;
    auto seconds = std::mktime(&parts);
    if (seconds >= 0)
      return static_cast<double>(seconds);
  }
  return std::nullopt;
}

} // namespace

result<double> read_since(const std::string& text) {
  if (text.empty())
    return 0.0;
  if (auto ago = read_ago(text))
    return *ago;
  if (auto date = read_date(text))
    return *date;
  return fault{fault_kind::usage,
               "--since '" + text +
                   "': give how long ago, such as 90s, 15m, 2h or 7d, or a "
                   "time, such as 2026-01-31 or '2026-01-31 18:30'"};
}

std::string date_of(double when) {
  auto seconds = static_cast<std::time_t>(when);
  std::tm parts = {};
  ::localtime_r(&seconds, &parts);
  char out[32] = {};
  std::strftime(out, sizeof(out), "%Y-%m-%d %H:%M:%S", &parts);
  return out;
}

} // namespace vgpu::command
