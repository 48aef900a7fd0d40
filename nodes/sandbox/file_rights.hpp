// The files, sockets and processes that a worker can reach.
#pragma once

#include "nodes/sandbox/sandbox.hpp"

namespace vgpu {

/// Restricts this thread and its children by Landlock, which needs no privilege
/// and works in containers. They can read programs, libraries and the kernel's
/// files, and can make a socket in the needed folder. They cannot trace
/// processes outside of this sandbox, nor, where the kernel is new enough,
/// connect over TCP or send them signals.
void restrict_files(const sandbox_needs& needs, sandbox_report& report);

} // namespace vgpu
