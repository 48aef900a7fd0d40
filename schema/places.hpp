// Where the processes of one user on one host find each other.
#pragma once

#include <string>

namespace vgpu {

/// $XDG_RUNTIME_DIR/vgpu, or /tmp/vgpu-UID.
std::string default_run_dir();

/// VGPU_MANAGER, or the manager of the default run directory.
std::string manager_endpoint();

/// The abstract Unix socket (without the leading NUL) on which this user's
/// client for that manager listens.
std::string client_socket_name(const std::string& manager);

} // namespace vgpu
