// What managers that compete for the lead ask of etcd, as values, and the seam
// to who asks it.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>

namespace vgpu::etcd {

/// Who leads: the value of the key that is under the leader's lease.
struct leader {
  std::string endpoint;
  std::uint64_t term = 0;
  bool operator==(const leader&) const = default;
};

/// What one leader leaves to the next: the value of a key without a lease.
struct record {
  std::uint64_t term = 0; // of the latest leader
  /// Up to here, numbers of sessions and vGPUs belong to leaders so far.
  std::uint64_t numbers = 0;
  /// Nodes that take no sessions.
  std::set<std::string> drained;
  bool operator==(const record&) const = default;
};

// -- questions ----------------------------------------------------------------

/// Answered with `seen`.
struct look {};
/// A lease; answered with `granted`.
struct grant {
  std::chrono::seconds length{0};
};
/// Puts both keys, if there is no leader and the record is the one that was
/// seen; answered with `taken`.
struct take {
  std::int64_t lease = 0;
  leader who;
  record next;
  std::int64_t revision = 0; // of the record that was seen
};
/// Answered with `renewed`.
struct renew {
  std::int64_t lease = 0;
};
/// Puts the record, if the leader's key is under this lease; answered with
/// `kept`.
struct keep {
  std::int64_t lease = 0;
  record what;
};
/// Answered with `revoked`, also where there is no such lease.
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
  std::chrono::seconds length{0}; // 0: the lease is no more
};
struct kept {
  bool mine = false;
};
struct revoked {};
/// No answer, or none that can be read. Whether what was asked was done is not
/// known.
struct failed {
  std::string why;
};
using answer =
    std::variant<seen, granted, taken, renewed, kept, revoked, failed>;

} // namespace vgpu::etcd

namespace vgpu {

/// What became of a question.
struct etcd_answer {
  std::uint64_t number = 0;
  etcd::answer what;
};
using etcd_answer_ptr = std::shared_ptr<const etcd_answer>;

/// Asks etcd, and is told what became of it: one of several managers.
using etcd_listener = caf::typed_actor<
    // Etcd answered a question, or did not in time. The implementation of
    // etcd_access sends it.
    caf::reacts_to<etcd_answer_ptr>>;

/// Asks etcd. Returns at once and may be called from any thread; `listener`
/// gets one etcd_answer_ptr. A question ends the one before, if that has no
/// answer yet. Numbers are the caller's.
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
