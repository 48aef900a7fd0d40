// A worker's rehearsal, as a process.
#pragma once

#include "actors/rehearsal.hpp"

#include <string>
#include <vector>

namespace vgpu {

/// What begins a rehearsal by starting a program with `arguments`, the first of
/// which is its name, and `--rehearse` with the state's descriptor. That
/// process writes to stderr why it could not, and ends with 0 if it could.
begin_rehearsal rehearsing_process(std::string program,
                                   std::vector<std::string> arguments);

} // namespace vgpu
