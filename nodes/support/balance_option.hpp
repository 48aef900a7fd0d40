// --balance: how often the manager looks for pGPUs with too much to do.
#pragma once

#include <CLI/CLI.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace vgpu {

/// Adds the option; what is no answer is refused when the command line is read.
void describe_balance(CLI::App& app, std::string& to);

/// What `off` (nothing) or a number of seconds means; nothing for other texts,
/// too.
std::optional<std::chrono::milliseconds> balance_every(const std::string& text);

} // namespace vgpu
