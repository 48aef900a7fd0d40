#pragma once

#include <cstdio>
#include <string>

namespace vgpu {

/// Sends this process's log to stderr, each line with the time, the process's
/// name and its number. VGPU_LOG chooses the level: error, warn, info, debug
/// or trace; `level` is taken where it is not set. Call once, first in main.
/// `to` is for who gives stderr another use.
void start_log(const std::string& name, const std::string& level = "info",
               std::FILE* to = stderr);

} // namespace vgpu
