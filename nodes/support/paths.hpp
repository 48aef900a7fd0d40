// Where the programs of a cluster find each other and what they load.
#pragma once

#include "schema/base/fault.hpp"

#include <string>
#include <vector>

namespace vgpu {

/// The path of another program of ours: it lies beside this one.
std::string sibling(const std::string& program);

/// The folder with libcuda.so.1: `../lib` of this program's.
std::string library_dir();

/// Whether somebody listens on the Unix socket of an ipc:// endpoint. False
/// for what is no such endpoint.
bool somebody_listens(const std::string& endpoint);

/// Nothing, or what is wrong with how an endpoint is written.
status check_endpoint(const std::string& endpoint);

/// The endpoints of a list with commas.
std::vector<std::string> split_endpoints(const std::string& list);

/// Nothing, or what is wrong with a list of one or several managers' endpoints.
status check_endpoints(const std::string& list);

} // namespace vgpu
