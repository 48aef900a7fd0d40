// Starting vgpu-client from inside the program's process.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <string>

namespace vgpu::interposer {

/// Returns the path of the client's program: VGPU_CLIENT, or ../bin/vgpu-client
/// relative to this library's folder.
std::string client_program();

/// Starts the client and returns a pidfd of it, or a fault that names the
/// program that cannot be executed. An intermediate process, which ends at
/// once, is its parent, so that the program sees neither a child nor SIGCHLD.
/// The client inherits none of the program's file descriptors, and the
/// environment without LD_PRELOAD.
result<unique_fd> start_client(const std::string& program);

} // namespace vgpu::interposer
