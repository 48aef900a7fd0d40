// The helper processes of a worker.
#pragma once

#include "actors/worker/checkpoint/dry_run.hpp"
#include "actors/worker/checkpoint/helper.hpp"

#include <string>
#include <vector>

namespace vgpu {

/// Returns a function that begins a dry run: it starts `program` with
/// `arguments`, the first of which is its name, and `--dry-run` with the
/// descriptor of the state's file. start_helper() says how the process reports.
begin_dry_run dry_run_process(std::string program,
                              std::vector<std::string> arguments);

/// Returns a function that checkpoints this whole process, or restores it, by
/// starting `program` with `--checkpoint` or `--restore` and this process's
/// number.
begin_gpu_move gpu_move_process(std::string program);

} // namespace vgpu
