// A process's link to whichever of several managers leads.
#pragma once

#include "actors/link/link.hpp"

#include <map>
#include <string>
#include <vector>

namespace vgpu {

/// Of several managers, who is listened to: the one that said welcome in the
/// latest term, for as long as its connection stands and it does not say that
/// another leads. A value; knows no actor.
class leader_choice {
public:
  /// What becomes of what a manager said.
  enum class verdict {
    pass,   // it is the one that is listened to
    begins, // the same, from now on
    ends,   // it says that it leads no more
    drop    // another leads, or nobody
  };

  explicit leader_choice(std::vector<std::string> endpoints);

  verdict hears(const std::string& endpoint, const control::body& what);
  /// Whether who was listened to is gone.
  bool lost(const std::string& endpoint);
  void connected(const std::string& endpoint);
  /// Whether there is no connection to any.
  bool all_gone() const noexcept;

  /// Who is listened to; empty: nobody.
  const std::string& chosen() const noexcept { return chosen_; }

private:
  std::map<std::string, bool> here_; // by endpoint: connected
  std::string chosen_;
  std::uint64_t term_ = 0; // the latest that is known of
};

/// A connecting control link to all of these managers (`how.endpoint` is of no
/// account), which says hello to each. Towards its consumer it is one link to
/// the one that leads, whatever that is at the time: with all their endpoints,
/// joined, as the name of its peer. `up`, and the welcome, come when one leads;
/// `down` when it is gone, or says that it leads no more. What is sent while
/// nobody leads is lost. For one endpoint it is spawn_link().
///
/// Fails where one of the endpoints is malformed; the reason names it.
result<open_link> spawn_leader_link(caf::actor_system& system,
                                    zmq::context_t& zmq,
                                    const std::vector<std::string>& endpoints,
                                    link_options how);

struct leader_link_state {
  leader_link_state() = default;

  static constexpr const char* name = "vgpu.leader_link";
  std::string peer; // what the consumer knows them by
  std::map<std::string, caf::actor> links;
  std::unique_ptr<leader_choice> choice;
  caf::actor consumer;
};

/// The actor behind spawn_leader_link(), over links that there are.
caf::behavior leader_link(caf::stateful_actor<leader_link_state>* self,
                          std::string peer,
                          std::map<std::string, caf::actor> links);

} // namespace vgpu
