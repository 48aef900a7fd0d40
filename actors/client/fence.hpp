// Makes sure that a worker of an older epoch executes nothing any more.
#pragma once

#include "actors/link/host.hpp"
#include "schema/base/fault.hpp"

#include <chrono>
#include <string>

namespace vgpu {

/// Ends the worker that listens on this abstract Unix socket of this host, and
/// returns when its process is dead. An abstract name goes with its process:
/// that nobody listens is proof enough, and nothing else is. Fails where it
/// cannot be told, where the worker belongs to another user, and where it does
/// not die in time.
status end_worker(const std::string& guest_socket,
                  std::chrono::milliseconds patience);

} // namespace vgpu
