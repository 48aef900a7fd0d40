// An etcd client over HTTP.
#pragma once

#include "actors/manager/election/etcd_access.hpp"
#include "schema/base/fault.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vgpu {

/// Describes the address of an etcd member's JSON gateway.
struct etcd_member {
  std::string host;
  std::string port;
  /// Holds HOST:PORT, as in a URL.
  std::string authority;
};

/// Parses `http://HOST:PORT[,http://HOST:PORT...]`. The fault names the wrong
/// part.
result<std::vector<etcd_member>> parse_etcd_members(const std::string& text);

/// Makes a client with a thread of its own, which ends with the client. It asks
/// one member, and after a failure sends the next question to another one. All
/// keys begin with `prefix`. It uses neither encryption nor a password.
std::shared_ptr<etcd_access> make_etcd_client(std::vector<etcd_member> members,
                                              std::string prefix);

} // namespace vgpu
