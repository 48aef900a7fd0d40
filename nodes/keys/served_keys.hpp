// The keys of a manager that listens on TCP.
#pragma once

#include "actors/link/curve_keys.hpp"
#include "actors/link/key_guard.hpp"
#include "actors/link/protocol.hpp"
#include "nodes/keys/key_watch.hpp"

#include <functional>
#include <memory>
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

  /// Returns the keys for the manager's link.
  std::shared_ptr<const link_keys> link() const;

  /// Permits the keys of newcomers (manager_options::enroll).
  std::function<status(const principal&, const control::enroll&)> enroller();

private:
  served_keys(zmq::context_t& zmq, key_folder where, const manager_keys& keys);

  key_folder where_;
  key_pair own_;
  key_watch watch_;
  key_guard guard_;
};

} // namespace vgpu
