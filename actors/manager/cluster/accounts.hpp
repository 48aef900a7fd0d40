// Who used how much: what nodes report, kept and answered.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/usage_book.hpp"
#include "actors/records/records.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// The cluster's accounts, and when they are written into the store. It reads
/// whose a session is from the records, and changes nothing of them. One
/// thread.
class accounts {
public:
  accounts(std::function<double()> wall_time, manager_clock& clock,
           const cluster_state& state, outbox& out);
  /// Writes down what was used.
  ~accounts();
  accounts(const accounts&) = delete;
  accounts& operator=(const accounts&) = delete;

  /// Takes back what the store kept.
  void restore(const usage_book& kept) { book_ = kept; }

  /// From now on a session's use is charged to its owner.
  void open(const session_record& x);
  /// The session has no worker any more, and what it used is written down.
  void close(session_id id);
  /// The same for one that the store has forgotten: it is written down later.
  void close_forgotten(session_id id) { book_.close(id); }

  /// A node reports what a session's worker used so far.
  void note_use(const control::session_load& x);
  /// A node reports for the last time on workers that ended. It is written down
  /// before the node hears that it may forget them.
  void note_ended(const std::vector<control::session_load>& ended);

  /// Answers who used how much.
  void handle(const std::string& peer, const control::envelope& from,
              const control::usage_request& x);
  /// usage_book::summary() by user, as a text.
  std::string usage_json() const;
  /// What a session used in all its epochs.
  control::usage of(session_id id) const { return book_.of(id); }

  /// Writes down what is due by now.
  void on_tick();
  /// When something is to be written down.
  std::optional<time_point> next_deadline() const noexcept { return save_at_; }

private:
  void save();
  void save(session_id only);

  std::function<double()> wall_time_;
  manager_clock& clock_;
  const cluster_state& state_;
  outbox& out_;
  usage_book book_;
  std::optional<time_point> save_at_;
};

} // namespace vgpu
