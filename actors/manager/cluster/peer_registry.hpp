// Who is connected to a manager, and who may say what.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/outbox.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace vgpu {

/// What a manager tells a peer that says hello, beside the protocol's version.
struct manager_greeting {
  std::uint64_t incarnation = 0;
  std::uint32_t beat_every_ms = 0;
  std::uint32_t lost_after_ms = 0;
  /// 0: there is one manager, and it leads always.
  std::uint64_t term = 0;
};

/// The connections, and the names and roles of the peers behind them. One
/// thread.
class peer_registry {
public:
  peer_registry(outbox& out, manager_greeting greeting);
  peer_registry(const peer_registry&) = delete;
  peer_registry& operator=(const peer_registry&) = delete;

  /// Welcomes a peer; false where it is refused, for its version or its name.
  bool welcome(const std::string& peer, const control::envelope& from,
               const control::hello& x);
  /// Whether a peer may say this. If not, it is refused.
  bool may_say(const std::string& peer, const control::envelope& what);
  /// The connection is gone; returns the role of its peer, if it said hello.
  std::optional<control::role> remove(const std::string& peer);

  /// The name of the node on this connection; empty when there is none.
  std::string node_of(const std::string& peer) const;
  bool has_clients() const;
  std::uint64_t incarnation() const noexcept { return greeting_.incarnation; }

private:
  struct peer_record {
    std::string name;
    control::role as = control::role::command;
  };

  outbox& out_;
  manager_greeting greeting_;
  std::map<std::string, peer_record> peers_;
};

} // namespace vgpu
