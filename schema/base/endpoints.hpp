// Where the processes of one user on one host find each other.
#pragma once

#include <string>

namespace vgpu {

/// Returns the default run directory: $XDG_RUNTIME_DIR/vgpu, or /tmp/vgpu-UID.
std::string default_run_dir();

/// Returns the manager's endpoint in a run directory: ipc://DIR/manager.sock.
std::string endpoint_in(const std::string& run_dir);

/// Returns the manager's endpoint when no option names one: $VGPU_MANAGER, or
/// the one in `run_dir`.
std::string default_endpoint(const std::string& run_dir = default_run_dir());

/// Returns $VGPU_MANAGER, or an empty string where the program leaves the
/// choice to its client.
std::string chosen_manager();

/// Returns the transport of calls: $VGPU_TRANSPORT, or auto.
std::string chosen_transport();

/// Returns the abstract Unix socket (without the leading NUL) on which this
/// user's client for that chosen_manager() and chosen_transport() listens.
std::string client_socket_name(const std::string& manager,
                               const std::string& transport);

} // namespace vgpu
