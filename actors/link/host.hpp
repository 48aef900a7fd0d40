#pragma once

#include <string>

namespace vgpu {

/// The same text in two processes means: same host, same network namespace, so
/// that abstract sockets and shared memory can pass between them.
std::string host_id();

} // namespace vgpu
