#include "nodes/support/balance_option.hpp"

#include <charconv>
#include <cmath>

namespace vgpu {

namespace {

constexpr double shortest_s = 0.1;
constexpr double longest_s = 3'600;

} // namespace

std::optional<std::chrono::milliseconds>
balance_every(const std::string& text) {
  double seconds = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), seconds);
  // The condition is written so that NaN fails it.
  if (error != std::errc{} || end != text.data() + text.size() ||
      !(seconds >= shortest_s && seconds <= longest_s))
    return std::nullopt;
  return std::chrono::milliseconds{std::llround(seconds * 1e3)};
}

void describe_balance(CLI::App& app, std::string& to) {
  app.add_option("--balance", to,
                 "seconds between checks for overloaded GPUs, whose vGPUs then "
                 "migrate to other GPUs; or off (default: 1)")
      ->check(
          [](const std::string& text) {
            return text == "off" || balance_every(text)
                       ? std::string{}
                       : "'" + text +
                             "': give seconds from 0.1 to 3600, or off";
          },
          "off|SECONDS");
}

} // namespace vgpu
