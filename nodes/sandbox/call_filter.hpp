// The system calls that a worker may make.
#pragma once

#include "nodes/sandbox/sandbox.hpp"

namespace vgpu {

/// Restricts all threads of this process, and its children, by seccomp. With
/// the cpu device it permits what is on a list. With NVIDIA's driver, whose
/// calls no document lists, it refuses what is on a list. A refused call fails
/// with EPERM, and a call that neither list knows with ENOSYS.
void restrict_system_calls(const sandbox_needs& needs, sandbox_report& report);

} // namespace vgpu
