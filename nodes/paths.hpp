// Where the processes of a cluster keep and find things.
#pragma once

#include "schema/fault.hpp"
#include "schema/places.hpp"

#include <string>

namespace vgpu {

/// The manager's endpoint in a run directory: ipc://DIR/manager.sock.
std::string endpoint_in(const std::string& run_dir);

/// The manager to use when none is named: $VGPU_MANAGER, or the one in
/// `run_dir`.
std::string default_endpoint(const std::string& run_dir);

/// Makes `path`, for this user alone, unless it is there. The value tells
/// whether it was made. Fails when it is there and somebody else's.
result<bool> make_private_dir(const std::string& path);

/// The path of another program of ours: it lies beside this one.
std::string sibling(const std::string& program);

/// The folder with libcuda.so.1: `../lib` of this program's.
std::string library_dir();

/// Whether somebody listens on the Unix socket of an ipc:// endpoint. False
/// for what is no such endpoint.
bool somebody_listens(const std::string& endpoint);

/// Nothing, or what is wrong with how an endpoint is written.
status check_endpoint(const std::string& endpoint);

} // namespace vgpu
