// What a worker has other processes do, as programs.
#pragma once

#include "actors/helper.hpp"
#include "actors/rehearsal.hpp"

#include <string>
#include <vector>

namespace vgpu {

/// What begins a rehearsal by starting a program with `arguments`, the first of
/// which is its name, and `--rehearse` with the state's descriptor. That
/// process writes to stderr why it could not, and ends with 0 if it could.
begin_rehearsal rehearsing_process(std::string program,
                                   std::vector<std::string> arguments);

/// What begins to put this process aside, or to bring it back, by starting a
/// program with `--put-aside` or `--bring-back` and this process's number.
begin_aside aside_process(std::string program);

} // namespace vgpu
