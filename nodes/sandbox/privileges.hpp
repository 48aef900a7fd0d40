// Privileges, core dumps and resources of a worker's process.
#pragma once

#include "nodes/sandbox/sandbox.hpp"

namespace vgpu {

/// Lowers the limits on what a process may take of its host. Memory and
/// processes are limited by the node's control groups, because the kernel
/// counts RLIMIT_NPROC over all processes of a user.
void limit_resources(const sandbox_needs& needs, sandbox_report& report);

/// Makes set-user-ID programs and file capabilities give no privilege to this
/// process and its children.
void forbid_new_privileges(sandbox_report& report);

/// Gives up all capabilities, in every set. Keeps the one that the socket's
/// folder needs where it is another user's.
void drop_capabilities(const sandbox_needs& needs, sandbox_report& report);

/// Makes the process leave no core dump, which would hold its session's memory.
/// Where the device permits it, the process can also not be traced by others of
/// its user.
void forbid_cores(const sandbox_needs& needs, sandbox_report& report);

} // namespace vgpu
