// Where a process is, as others can compare it.
#pragma once

#include <string>

namespace vgpu {

/// Identifies this host and network namespace. Where two processes get the same
/// text, abstract sockets and shared memory can pass between them.
std::string host_id();

} // namespace vgpu
