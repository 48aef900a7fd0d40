// Starting vgpu-client from inside somebody else's process.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <string>

namespace vgpu::interposer {

/// Where the client's program lies: VGPU_CLIENT, or ../bin/vgpu-client as seen
/// from this library.
std::string client_program();

/// Starts it so that the calling process never sees a child nor SIGCHLD: by an
/// intermediate process that ends at once. The client keeps none of the
/// program's file descriptors, and gets its environment without LD_PRELOAD.
/// The result is a pidfd of the client, or a fault that names what cannot be
/// executed.
result<unique_fd> start_client(const std::string& program);

} // namespace vgpu::interposer
