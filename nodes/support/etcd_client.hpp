// etcd over HTTP.
#pragma once

#include "actors/manager/etcd_access.hpp"
#include "schema/base/fault.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vgpu {

/// A member of etcd: where its JSON gateway listens.
struct etcd_member {
  std::string host;
  std::string port;
  std::string authority; // both, as a URL has them
};

/// `http://HOST:PORT[,http://HOST:PORT...]`, or which part of it is wrong.
result<std::vector<etcd_member>> parse_etcd_members(const std::string& text);

/// Asks one member, on a thread of its own, which ends with this; where that
/// one fails, the next question goes to another. `prefix` is what the keys
/// begin with. Without encryption or password.
std::shared_ptr<etcd_access> make_etcd_client(std::vector<etcd_member> members,
                                              std::string prefix);

} // namespace vgpu
