// --balance: how often the manager samples pGPUs to balance their load.
#pragma once

#include <CLI/CLI.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace vgpu {

/// Adds the option, which refuses a wrong value when the command line is
/// parsed.
void describe_balance(CLI::App& app, std::string& to);

/// Parses a number of seconds. Returns nothing for `off` and for any other
/// text.
std::optional<std::chrono::milliseconds> balance_every(const std::string& text);

} // namespace vgpu
