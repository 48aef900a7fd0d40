// The questions that competing managers ask etcd, as values, and the interface
// that asks them.
#pragma once

#include "actors/link/peer_messages.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>

namespace vgpu::etcd {

/// Names the leader: the value of the key under the leader's lease.
struct leader {
  std::string endpoint;
  std::uint64_t term = 0;
  bool operator==(const leader&) const = default;
};

/// Holds what a leader leaves to its successor: the value of a key without a
/// lease.
struct record {
  std::uint64_t term = 0; // of the latest leader
  /// Numbers of sessions and vGPUs up to this one belong to leaders so far.
  std::uint64_t numbers = 0;
  /// Names the drained nodes.
  std::set<std::string> drained;
  /// Holds the limits of the tenants, by name.
  std::map<std::string, control::tenant_limits> tenants;
  bool operator==(const record&) const = default;
};

// -- questions ----------------------------------------------------------------

/// Asks for `seen`.
struct look {};
/// Asks for a lease; answered with `granted`.
struct grant {
  std::chrono::seconds length{0};
};
/// Writes both keys if there is no leader and the record is still at this
/// revision; answered with `taken`.
struct take {
  std::int64_t lease = 0;
  leader who;
  record next;
  std::int64_t revision = 0; // of the record as last seen
};
/// Renews the lease; answered with `renewed`.
struct renew {
  std::int64_t lease = 0;
};
/// Writes the record if the leader's key is under this lease; answered with
/// `kept`.
struct keep {
  std::int64_t lease = 0;
  record what;
};
/// Ends the lease; answered with `revoked` even if there is no such lease.
struct revoke {
  std::int64_t lease = 0;
};
using question = std::variant<look, grant, take, renew, keep, revoke>;

// -- answers ------------------------------------------------------------------

struct seen {
  std::optional<leader> who;
  record kept;
  std::int64_t revision = 0; // of the record; 0: there is none
};
struct granted {
  std::int64_t lease = 0;
  std::chrono::seconds length{0};
};
struct taken {
  bool mine = false;
};
struct renewed {
  std::chrono::seconds length{0}; // 0: the lease has ended
};
struct kept {
  bool mine = false;
};
struct revoked {};
/// Reports that no readable answer came. Etcd may or may not have done what was
/// asked.
struct failed {
  std::string why;
};
using answer =
    std::variant<seen, granted, taken, renewed, kept, revoked, failed>;

} // namespace vgpu::etcd

namespace vgpu {

/// Holds the answer to a question.
struct etcd_answer {
  std::uint64_t number = 0;
  etcd::answer what;
};
using etcd_answer_ptr = std::shared_ptr<const etcd_answer>;

/// Receives etcd's answers: one of several managers.
using etcd_listener = caf::typed_actor<
    // Etcd answered a question, or did not in time. The implementation of
    // etcd_access sends it.
    caf::reacts_to<etcd_answer_ptr>>;

/// Asks etcd. Each call returns at once and may come from any thread;
/// `listener` gets one etcd_answer_ptr. A new question cancels an unanswered
/// one. The caller chooses the numbers.
class etcd_access {
public:
  virtual ~etcd_access() = default;
  virtual void ask(std::uint64_t number, etcd::question what,
                   std::chrono::milliseconds within,
                   etcd_listener listener) = 0;
};

} // namespace vgpu

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(vgpu::etcd_answer_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<vgpu::etcd_access>)
