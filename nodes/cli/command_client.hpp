#pragma once

#include "actors/link/link.hpp"
#include "actors/link/system.hpp"
#include "nodes/keys/joined_keys.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace vgpu {

/// A command_client is a command's connection to the manager. Not thread-safe.
/// Its destructor ends all of its threads and closes all of its descriptors.
class command_client {
public:
  using milliseconds = std::chrono::milliseconds;

  /// Connects and says hello. Fails when no manager answers within `patience`,
  /// when no process listens at the endpoint for as long as `absence`, or when
  /// the manager refuses. The reason names the endpoint and what to check.
  static result<std::unique_ptr<command_client>>
  connect(const std::string& endpoint, milliseconds patience,
          milliseconds absence = milliseconds{500});

  ~command_client();
  command_client(const command_client&) = delete;
  command_client& operator=(const command_client&) = delete;

  /// Sends a request and waits for the answer. A refusal is a fault.
  result<control::body> ask(control::body what, milliseconds patience);

  /// Returns the term of the manager's leadership, or 0 where there is only one
  /// manager.
  std::uint64_t term() const noexcept { return term_; }

private:
  explicit command_client(std::string endpoint);

  status open(milliseconds patience, milliseconds absence);
  bool take_renewal(const control::envelope& what);
  void end_renewal();

  std::string endpoint_;
  std::string name_;
  zmq::context_t zmq_;
  system_config config_;
  caf::actor_system system_;
  caf::scoped_actor self_;
  link_actor link_;
  std::uint64_t last_request_ = 0;
  joined_renewal renewal_{key_folder{}, login_key_file};
  /// Holds the next keys, while the manager is asked to permit them.
  std::shared_ptr<const link_keys> renewing_;
  std::uint64_t renewal_request_ = 0;
  std::uint64_t term_ = 0;
};

} // namespace vgpu
