// What a worker has other processes do, as programs.
#pragma once

#include "actors/worker/serve/dry_run.hpp"
#include "actors/worker/serve/helper.hpp"

#include <string>
#include <vector>

namespace vgpu {

/// What begins a dry run by starting a program with `arguments`, the first of
/// which is its name, and `--make a dry run` with the state's descriptor. That
/// process writes to stderr why it could not, and ends with 0 if it could.
begin_dry_run dry_run_process(std::string program,
                              std::vector<std::string> arguments);

/// What begins to put this process aside, or to bring it back, by starting a
/// program with `--put-aside` or `--bring-back` and this process's number.
begin_aside aside_process(std::string program);

} // namespace vgpu
