// The leases that the manager grants a session, one for each epoch.
#pragma once

#include "actors/link/protocol.hpp"
#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vgpu {

/// Holds the lease of a session, the one before it, and whether the current
/// lease's worker is suspected.
///
///           grant                suspect
///   none ──────────► trusted ──────────────► suspected
///                     ▲   ▲    trust_again      │  │
///                     │   └─────────────────────┘  │
///                     └──────── grant ─────────────┘   (of a higher epoch)
///
/// It belongs to the session_client's thread. The other parts read it.
class session_lease {
public:
  /// Names what an offered lease changes.
  enum class change {
    nothing, // it has an older epoch
    terms,   // it has the current epoch, and maybe other terms
    place,   // it has a later epoch
  };

  /// Takes the lease under which a former client of the program served the
  /// session. Its worker may still run.
  void take_over(control::lease former) { former_ = std::move(former); }

  change compare(const control::lease& offered) const noexcept;
  /// Makes `next` the current lease. The current one becomes the former, unless
  /// a worker of an earlier one is not fenced yet. Precondition: compare(next)
  /// == change::place.
  void grant(const control::lease& next);
  /// Takes the terms of a lease of the current epoch: how much memory the
  /// session may use, and how it recovers.
  void amend(const control::lease& offered) {
    current_->quota = offered.quota;
    current_->recovery = offered.recovery;
  }

  bool granted() const noexcept { return current_.has_value(); }
  /// Precondition: granted().
  const control::lease& current() const noexcept { return *current_; }
  /// Returns the lease whose worker may still execute the session's calls.
  const std::optional<control::lease>& former() const noexcept {
    return former_;
  }
  /// Returns whether a worker of an earlier epoch may have executed calls.
  bool follows_another() const noexcept {
    return former_ && former_->epoch != current_->epoch;
  }
  /// Call it when the former lease's worker is fenced.
  void forget_former() noexcept { former_.reset(); }

  /// Returns 0 where no lease was granted.
  session_id session() const noexcept {
    return current_ ? current_->session : session_id{};
  }
  /// Returns 0 where no lease was granted.
  vgpu::epoch epoch() const noexcept {
    return current_ ? current_->epoch : vgpu::epoch{};
  }

  void suspect(const std::string& why);
  void trust_again() noexcept { suspected_ = false; }
  bool suspected() const noexcept { return suspected_; }
  /// Says why a worker was last suspected, in any epoch.
  const std::string& last_suspicion() const noexcept { return last_suspicion_; }

  /// Leaves the current lease in the shared memory for another client, which
  /// adopts the session if this one dies.
  void write_ticket(control_header& header) const;

private:
  std::optional<control::lease> current_;
  std::optional<control::lease> former_;
  bool suspected_ = false;
  std::string last_suspicion_;
};

} // namespace vgpu
