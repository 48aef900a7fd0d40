// How the programs of a cluster find each other and their libraries.
#pragma once

#include "schema/base/fault.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// Returns the path of another program of ours, which lies beside this one.
std::string sibling(const std::string& program);

/// Returns the folder with libcuda.so.1: `../lib` of this program's folder.
std::string library_dir();

/// Returns the user whose process listens on the Unix socket of an ipc://
/// endpoint; unset: none does, or it is another endpoint.
std::optional<uid_t> owner_of(const std::string& endpoint);

/// Returns whether a process listens on the Unix socket of an ipc:// endpoint.
/// Returns false for any other endpoint.
bool somebody_listens(const std::string& endpoint);

/// Returns a fault that says what is wrong with an endpoint's form.
status check_endpoint(const std::string& endpoint);

/// Returns whether who listens on this endpoint can be reached from other
/// hosts.
bool leaves_host(const std::string& endpoint);

/// Splits a list of endpoints at its commas.
std::vector<std::string> split_endpoints(const std::string& list);

/// Returns a fault that says what is wrong with a list of managers' endpoints.
status check_endpoints(const std::string& list);

} // namespace vgpu
