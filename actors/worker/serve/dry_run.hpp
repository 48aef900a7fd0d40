// Trying beforehand whether a session's next worker would get variables where
// this one has them.
//
// A GPU's driver puts modules' variables where it finds room, and programs have
// stored their addresses anywhere. Processes that load the same in the same
// order get the same places, most of the time; a state that could not be made
// again would be worth nothing when it is needed. So a process that is like the
// next worker tries it, while the session runs on.
#pragma once

#include "actors/worker/serve/helper.hpp"

namespace vgpu {

/// Begins one: a process like the next worker calls executor::dry_run()
/// with this file. `ring` is called, from any thread, when there is an outcome.
using begin_dry_run = std::function<result<std::unique_ptr<helper>>(
    int file, std::function<void()> ring)>;

} // namespace vgpu
