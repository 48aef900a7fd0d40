// The yardstick of the round trips: two processes and bare ZeroMQ.
#pragma once

#include <string>

namespace vgpu::bench {

/// Answers each message that comes over `endpoint` with itself; ends with its
/// parent.
[[noreturn]] void echo(const std::string& endpoint);

} // namespace vgpu::bench
