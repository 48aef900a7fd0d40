// Times in the past, as commands take and show them.
#pragma once

#include "schema/base/fault.hpp"

#include <string>

namespace vgpu::command {

/// Reads what `--since` takes: how long ago, such as 90s or 7d, or a day,
/// minute or second by this host's clock. Returns seconds since 1970; 0 for an
/// empty text.
result<double> read_since(const std::string& text);

/// Returns a time, in seconds since 1970, by this host's clock.
std::string date_of(double when);

} // namespace vgpu::command
