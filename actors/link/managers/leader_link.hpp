// A process's link to the leader among several managers.
#pragma once

#include "actors/link/link.hpp"

#include <map>
#include <string>
#include <vector>

namespace vgpu {

/// Chooses, among several managers, the one to listen to: the one that sent a
/// welcome in the latest term, until its connection is lost or it says that
/// another manager leads. A plain value that knows no actor.
class leader_choice {
public:
  /// Says what the link does with a manager's message.
  enum class verdict {
    /// The chosen manager sent it: pass it on.
    pass,
    /// Its sender becomes the chosen manager.
    begins,
    /// The chosen manager says that it does not lead any more.
    ends,
    /// Its sender does not lead: drop it.
    drop
  };

  explicit leader_choice(std::vector<std::string> endpoints);

  /// Takes a message of the manager at `endpoint`, and returns what to do with
  /// it.
  verdict hears(const std::string& endpoint, const control::body& what);
  /// Records that a connection is lost. Returns whether it was the chosen
  /// manager's.
  bool lost(const std::string& endpoint);
  /// Records that the connection to a manager stands.
  void connected(const std::string& endpoint);
  /// Returns whether no manager is connected.
  bool all_gone() const noexcept;

  /// Returns the endpoint of the chosen manager, or an empty string.
  const std::string& chosen() const noexcept { return chosen_; }

private:
  /// Tells whether each endpoint is connected.
  std::map<std::string, bool> here_;
  std::string chosen_;
  /// Holds the latest known term.
  std::uint64_t term_ = 0;
};

/// Spawns a control link that connects to all of these managers and greets each
/// one. `how.endpoint` is ignored. To its consumer it looks like one link to
/// the leader of the moment, and its peer's name is all the endpoints, joined.
/// It reports `up` and passes on the welcome when a manager leads, and reports
/// `down` when that manager is gone or does not lead any more. Messages that
/// the consumer sends while nobody leads are lost. With a single endpoint this
/// is spawn_link().
///
/// Fails where an endpoint is malformed, and the reason names it.
result<open_link> spawn_leader_link(caf::actor_system& system,
                                    zmq::context_t& zmq,
                                    const std::vector<std::string>& endpoints,
                                    link_options how);

/// Describes the state of the actor leader_link().
struct leader_link_state {
  leader_link_state() = default;

  static constexpr const char* name = "vgpu.leader_link";
  /// Holds the consumer's name for all the managers.
  std::string peer;
  std::map<std::string, link_actor> links;
  std::unique_ptr<leader_choice> choice;
  control_consumer consumer;
  /// Tells whether the consumer waits for what the chosen link has to pass on.
  bool looks = false;
};

/// Implements the actor that spawn_leader_link() spawns, over existing links.
leader_link_actor::behavior_type
leader_link(leader_link_actor::stateful_pointer<leader_link_state> self,
            std::string peer, std::map<std::string, link_actor> links);

} // namespace vgpu
