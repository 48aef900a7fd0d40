// One leader after another: numbers and epochs that no other leader gives, and
// what a leader leaves to the next.
#pragma once

#include "actors/manager/cluster/cluster_state.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/manager_options.hpp"
#include "schema/base/fault.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vgpu {

/// Gives sessions and vGPUs their numbers and epochs, by the right that this
/// manager leads by. Of the records it changes only cluster_state::drained,
/// when a term begins. One thread.
class term_numbers {
public:
  term_numbers(const manager_options& options, manager_clock& clock,
               cluster_state& state);
  term_numbers(const term_numbers&) = delete;
  term_numbers& operator=(const term_numbers&) = delete;

  /// Continues after the highest numbers ever given.
  void restore(std::uint64_t last_session, std::uint64_t last_vgpu);
  /// Begins the term of an elected leader. Returns the sessions of this
  /// manager's own store that an earlier leader has made obsolete: they are
  /// forgotten.
  std::vector<session_id> begin();
  /// The store or the events tell of an earlier life of this manager.
  void note_earlier_life() noexcept { has_earlier_life_ = true; }
  bool has_earlier_life() const noexcept { return has_earlier_life_; }
  /// Whether any session number was ever given.
  bool has_given_numbers() const noexcept { return last_session_ != 0; }

  /// An epoch above `x`, and above all that former leaders gave.
  vgpu::epoch epoch_after(vgpu::epoch x) const;
  /// Gives a new session numbers that no other has, nor one of another leader.
  /// Fails while an elected leader has no numbers left.
  status take_numbers(session_record& to);
  /// A peer names a session that this manager does not know.
  void note_numbers(session_id session, vgpu_id vgpu);

  /// Whether nodes of the leader before, or of this manager's earlier life, may
  /// still be on their way.
  bool nodes_may_come() const;

  /// What an elected leader would have etcd keep for its successors; nothing
  /// while etcd keeps it.
  std::optional<etcd::record> to_keep() const;
  /// Etcd keeps `x`.
  void kept(const etcd::record& x) { right_.kept = x; }
  const mandate& right() const noexcept { return right_; }

private:
  const manager_options& options_;
  manager_clock& clock_;
  cluster_state& state_;
  mandate right_;
  std::uint64_t last_session_ = 0;
  std::uint64_t last_vgpu_ = 0;
  bool has_earlier_life_ = false;
};

} // namespace vgpu
