// The peers of a manager, and which messages each may send.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/outbox.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace vgpu {

/// Holds what a manager's welcome contains, besides the protocol's version.
struct manager_greeting {
  std::uint64_t incarnation = 0;
  std::uint32_t beat_every_ms = 0;
  std::uint32_t lost_after_ms = 0;
  /// 0: a single manager without election.
  std::uint64_t term = 0;
};

/// Returns the beginning of the names of all peers in this role.
const char* prefix_of(control::role x);

/// Holds the connections, with the names and roles of their peers. Not
/// thread-safe.
class peer_registry {
public:
  peer_registry(outbox& out, manager_greeting greeting);
  peer_registry(const peer_registry&) = delete;
  peer_registry& operator=(const peer_registry&) = delete;

  /// Welcomes a peer. Returns false where it refuses the peer's version or
  /// name.
  bool welcome(const std::string& peer, const control::envelope& from,
               const control::hello& x);
  /// Returns whether a peer may send this. If not, it refuses the message.
  bool may_say(const std::string& peer, const control::envelope& what);
  /// Removes a closed connection. Returns its peer's role, if the peer said
  /// hello.
  std::optional<control::role> remove(const std::string& peer);

  /// Returns the name of the node on this connection; empty: it is no node's.
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
