#pragma once

#include <cstdio>
#include <string>

namespace vgpu {

/// Sends this process's log to stderr, each line with the time, the process's
/// name and its number. VGPU_LOG chooses the level: error, warn, info, debug or
/// trace. `level` is the default. `to` replaces stderr in a process that uses
/// stderr otherwise. Call it once, first in main.
void start_log(const std::string& name, const std::string& level = "info",
               std::FILE* to = stderr);

} // namespace vgpu
