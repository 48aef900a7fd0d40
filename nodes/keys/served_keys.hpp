// The keys of a manager that listens on TCP.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/key_guard.hpp"
#include "actors/link/link_actor.hpp"
#include "actors/link/protocol.hpp"
#include "actors/manager/manager_actor.hpp"
#include "nodes/keys/key_watch.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// Keeps who may connect to a manager. It must outlive the manager's link, and
/// its ZeroMQ context must outlive it.
class served_keys {
public:
  /// Reads the keys. Null: the manager listens within its host by a file, or
  /// has no keys. Fails where the keys cannot be used: nobody shall believe
  /// that they hold.
  static result<std::unique_ptr<served_keys>>
  open(zmq::context_t& zmq, const key_folder& where, const std::string& listen);

  /// Returns the keys with which the manager's link begins: the former ones
  /// while a rotation is under way.
  std::shared_ptr<const link_keys> link();

  /// Returns who may connect.
  std::shared_ptr<const permitted_keys> permitted() const {
    return watch_.permitted();
  }

  /// Keeps the link's keys as the file says, and tells the manager of
  /// rotations, until rest() or the end of this.
  void drive(link_actor link, manager_actor brain);
  void rest() { watch_.tell(nullptr); }

  /// Returns what a peer must be told (manager_options::rotation).
  std::function<std::optional<control::rotate_key>(const principal&)>
  rotation();
  /// Renews keys (manager_options::renew).
  std::function<status(const principal&, const control::renew_key&)> renewer();

  /// Permits the keys of newcomers (manager_options::enroll).
  std::function<status(const principal&, const control::enroll&)> enroller();

private:
  served_keys(zmq::context_t& zmq, key_folder where, const manager_keys& keys);

  std::shared_ptr<const link_keys> link_of(const key_pair& own) const;
  status change(const std::function<status(manager_keys&)>& how);

  key_folder where_;
  key_watch watch_;
  key_guard guard_;
};

} // namespace vgpu
