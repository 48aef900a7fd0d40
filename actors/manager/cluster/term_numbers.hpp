// Numbers and epochs that no other leader gives, and what a leader leaves to
// its successor.
#pragma once

#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vgpu {

/// Gives sessions and vGPUs their numbers and epochs, within this manager's
/// mandate. Of the records it changes only which nodes are drained and the
/// tenants, when a term begins. Not thread-safe.
class term_numbers {
public:
  term_numbers(const manager_options& options, manager_clock& clock,
               cluster_state& state);
  term_numbers(const term_numbers&) = delete;
  term_numbers& operator=(const term_numbers&) = delete;

  /// Continues after the highest numbers ever given.
  void restore(std::uint64_t last_session, std::uint64_t last_vgpu);
  /// Begins the term of an elected leader. Returns the sessions of this
  /// manager's own store that are obsolete because another manager has led
  /// since; the caller forgets them.
  std::vector<session_id> begin();
  /// Records that the store or the events show an earlier life of this manager.
  void note_earlier_life() noexcept { has_earlier_life_ = true; }
  bool has_earlier_life() const noexcept { return has_earlier_life_; }
  /// Returns whether any session number was ever given.
  bool has_given_numbers() const noexcept { return last_session_ != 0; }

  /// Returns an epoch above `x` and above all epochs of former leaders.
  vgpu::epoch epoch_after(vgpu::epoch x) const;
  /// Gives a new session numbers that no leader has given. Fails while an
  /// elected leader has no numbers left.
  status take_numbers(session_record& to);
  /// Records the numbers of a session that a peer names and this manager does
  /// not know.
  void note_numbers(session_id session, vgpu_id vgpu);

  /// Returns whether a manager may have given a session these numbers. A peer
  /// that names larger ones would make the numbers that follow wrap around.
  static bool is_plausible(session_id session, vgpu_id vgpu,
                           vgpu::epoch x) noexcept {
    return session.value < implausible && vgpu.value < implausible &&
           x.value < implausible;
  }

  /// Returns whether nodes of the former leader, or of this manager's earlier
  /// life, may still register.
  bool nodes_may_come() const;

  /// Returns what an elected leader wants etcd to keep for its successors;
  /// unset: etcd keeps it already.
  std::optional<etcd::record> to_keep() const;
  /// Records that etcd keeps `x`.
  void kept(const etcd::record& x) { right_.kept = x; }
  const mandate& right() const noexcept { return right_; }

private:
  static constexpr std::uint64_t implausible = std::uint64_t{1} << 62;

  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  mandate right_;
  std::uint64_t last_session_ = 0;
  std::uint64_t last_vgpu_ = 0;
  bool has_earlier_life_ = false;
};

} // namespace vgpu
