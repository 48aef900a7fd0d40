// The connections of a socket whose peers have keys.
#pragma once

#include "actors/link/doorbell.hpp"
#include "actors/link/permitted_keys.hpp"
#include "schema/log/session_area.hpp"

#include <map>
#include <memory>
#include <string>

namespace vgpu {

/// Says who sent a message, and ends the connections of revoked keys. Not
/// thread-safe.
///
/// It has a descriptor of its own for each connection, because ZeroMQ may close
/// its one at any time, and its number may then be another connection's.
class keyed_connections {
public:
  explicit keyed_connections(std::shared_ptr<permitted_keys> permitted);

  /// Returns the descriptor that is readable when keys were revoked.
  int bell() const noexcept { return bell_->fd(); }

  /// Adds a connection that was just accepted.
  void accepted(int fd);
  /// Forgets a connection that is gone.
  void gone(int fd) noexcept;

  /// Returns who sent a message on the descriptor with this key, which ZeroMQ
  /// told; null: the message must be dropped.
  principal_ptr sender(int fd, const char* key);

  /// Ends the connection, if it is known yet.
  void end(int fd) noexcept;

  /// Call it before reading the changes of connections: end_revoked() then ends
  /// all connections of keys that were revoked before this call.
  void look() noexcept;
  /// Ends the connections whose key is not permitted any more, and those whose
  /// peer is not known yet: it connects again, and is asked for its key.
  /// Returns whether keys were revoked.
  bool end_revoked();

private:
  struct connection {
    unique_fd own;
    std::string key;
    principal_ptr who;
  };

  using connections = std::map<int, connection>;

  connections::iterator end(connections::iterator which);

  std::shared_ptr<permitted_keys> permitted_;
  std::shared_ptr<doorbell> bell_ = std::make_shared<doorbell>();
  connections here_;
  bool revoked_ = false;
};

} // namespace vgpu
