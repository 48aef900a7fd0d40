// Where the processes of one user on one host find each other.
#pragma once

#include <string>

namespace vgpu {

/// $XDG_RUNTIME_DIR/vgpu, or /tmp/vgpu-UID.
std::string default_run_dir();

/// The manager's endpoint in a run directory: ipc://DIR/manager.sock.
std::string endpoint_in(const std::string& run_dir);

/// The manager to use when none is named: $VGPU_MANAGER, or the one in
/// `run_dir`.
std::string default_endpoint(const std::string& run_dir = default_run_dir());

/// $VGPU_MANAGER; empty where the program leaves the choice to its client.
std::string chosen_manager();

/// $VGPU_TRANSPORT, or auto: how calls are to reach workers.
std::string chosen_transport();

/// The abstract Unix socket (without the leading NUL) on which this user's
/// client for that chosen_manager() and chosen_transport() listens.
std::string client_socket_name(const std::string& manager,
                               const std::string& transport);

} // namespace vgpu
