// The reference for round trips: two processes and plain ZeroMQ.
#pragma once

#include <string>

namespace vgpu::bench {

/// Answers each message at `endpoint` with the same message. Ends with its
/// parent.
[[noreturn]] void echo(const std::string& endpoint);

} // namespace vgpu::bench
