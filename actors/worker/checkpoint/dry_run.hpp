// Tests beforehand whether a session's next worker would get variables at the
// same addresses as this one.
//
// A GPU's driver puts modules' variables where it finds room, and programs may
// have stored their addresses anywhere. Processes that load the same modules in
// the same order mostly get the same addresses. A state that could not be
// restored would be useless when it is needed. So a process like the next
// worker tests it while the session runs on.
#pragma once

#include "actors/worker/checkpoint/helper.hpp"

namespace vgpu {

/// Begins a dry run: a process like the next worker calls executor::dry_run()
/// with this file. The helper calls `ring`, on any thread, when there is an
/// outcome.
using begin_dry_run = std::function<result<std::unique_ptr<helper>>(
    int file, std::function<void()> ring)>;

} // namespace vgpu
