// The cluster's accounts: what nodes report, kept and shown.
#pragma once

#include "actors/link/log_limit.hpp"
#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/manager_clock.hpp"
#include "actors/manager/cluster/outbox.hpp"
#include "actors/manager/cluster/usage_book.hpp"
#include "actors/records/records.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Keeps the cluster's accounts, and writes them into the store when it is
/// time. It reads a session's owner from the records, and changes no record.
/// Not thread-safe.
class accounts {
public:
  accounts(std::function<double()> wall_time, manager_clock& clock,
           const cluster_state& state, outbox& out);
  /// Writes the accounts into the store.
  ~accounts();
  accounts(const accounts&) = delete;
  accounts& operator=(const accounts&) = delete;

  /// Restores what the store kept.
  void restore(const usage_book& kept) { book_ = kept; }

  /// Charges the session's use to its owner from now on. Its node alone may
  /// report the use in its epoch.
  void open(const session_record& x);
  /// Closes the account of a session that has no worker any more, and writes it
  /// into the store.
  void close(session_id id);
  /// Closes the account of a session that the store has forgotten. It is
  /// written later.
  void close_forgotten(session_id id) { book_.close(id); }

  /// Records a node's report of a session's use so far. Drops the report where
  /// another node had the session in that epoch, and what exceeds the time that
  /// its devices had.
  void note_use(const std::string& node, const control::session_load& x);
  /// Records a node's last report of workers that ended. It writes the accounts
  /// before the node gets the acknowledgement.
  void note_ended(const std::string& node,
                  const std::vector<control::session_load>& ended);

  /// Answers a question about use. A tenant sees its own.
  void handle(const std::string& peer, const control::envelope& from,
              const control::usage_request& x);
  /// Returns usage_book::summary() by user, as a text.
  std::string usage_json() const;
  /// Returns what a session used in all its epochs.
  control::usage of(session_id id) const { return book_.of(id); }

  /// Writes the accounts if that is due.
  void on_tick();
  /// Returns when the accounts must be written.
  std::optional<time_point> next_deadline() const noexcept { return save_at_; }

private:
  /// Describes who serves a session in an epoch.
  struct serving {
    std::string node;
    std::size_t devices = 1;
    /// Says when the epoch began; unset: under a former manager.
    std::optional<time_point> since;
  };
  using serving_key = std::pair<session_id, epoch>;

  void serve(const session_record& x, std::optional<time_point> since);
  const serving* find_serving(const std::string& node,
                              const control::session_load& x);
  control::usage within(const serving& by, control::usage told) const;
  void save();
  void save(session_id only);

  std::function<double()> wall_time_;
  manager_clock& clock_;
  const cluster_state& state_;
  outbox& out_;
  usage_book book_;
  /// Holds the latest epochs, of at most most_served sessions and epochs, and
  /// their order.
  std::map<serving_key, serving> served_;
  std::deque<serving_key> serving_order_;
  log_limit foreign_;
  std::optional<time_point> save_at_;
};

} // namespace vgpu
