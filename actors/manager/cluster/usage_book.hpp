// The cluster's accounts: use by owner and time.
#pragma once

#include "actors/records/usage.hpp"
#include "schema/base/ids.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vgpu {

/// Says to whom a session's use is charged.
struct usage_owner {
  vgpu_id vgpu;
  std::string vm; // the program's host
  std::string user;
  std::string program;
  /// Is empty in what an earlier release kept.
  std::string tenant{};
  auto operator<=>(const usage_owner&) const = default;
};

/// Holds a session's owner and the totals that its workers reported, by epoch.
struct usage_account {
  usage_owner owner;
  std::map<vgpu::epoch, control::usage> told;
  /// Holds the first epoch of which reports may still come.
  vgpu::epoch settled;
  control::usage total; // of all epochs
  bool closed = false;
  bool operator==(const usage_account&) const = default;
};

/// Names a row: a session's use within a span of time. A row of session 0 sums
/// up several sessions.
struct usage_key {
  std::int64_t start = 0; // seconds since 1970; 0: all time
  session_id session;
  usage_owner owner;
  auto operator<=>(const usage_key&) const = default;
};

/// Returns the use in the units of bills: seconds, bytes, MiB times seconds.
nlohmann::json bill_of(const control::usage& x);

/// Holds the accounts of a cluster. Workers report totals, so a lost or
/// repeated report changes nothing, and a late report of a former worker is
/// added to that of the present one. Not thread-safe.
///
/// Each session has one row for each minute. When there are more than
/// `most_rows`, the older half become one row for each hour. If that is not
/// enough, they become one row for each VM, user, program and tenant, and above
/// `most_owners` of those, one row for all others of a tenant. So no use is
/// lost, but its time and owner become less exact.
class usage_book {
public:
  static constexpr std::size_t most_rows = 20'000;
  static constexpr std::size_t most_owners = 1'000;
  /// Limits the closed accounts of sessions whose nodes may still report.
  static constexpr std::size_t most_closed = 10'000;
  /// Limits the epochs of one session for which reports may still come.
  static constexpr std::size_t most_epochs = 8;
  static constexpr std::int64_t minute = 60;
  static constexpr std::int64_t hour = 3'600;

  /// Charges the session's use to this owner from now on.
  void open(session_id session, const usage_owner& owner);
  /// Records that it has no worker any more. A report may still come.
  void close(session_id session);
  bool knows(session_id session) const { return accounts_.contains(session); }

  /// Records what a worker of this epoch has used in total. Returns false where
  /// nothing is new, or the session has no account.
  bool report(session_id session, vgpu::epoch era, const control::usage& total,
              double now);

  /// Returns what a session used in all its epochs.
  control::usage of(session_id session) const;
  std::size_t rows() const noexcept { return rows_.size(); }

  /// Returns the use since then, by "vm", "user", "program", "tenant" or
  /// "vgpu": {"by", "since", "now", "entries"}. The row that contains the time
  /// counts as a whole; "since" is its start. With `only`, the use of this
  /// tenant alone.
  nlohmann::json
  summary(double since, const std::string& by, double now,
          const std::optional<std::string>& only = std::nullopt) const;

  // -- what survives its manager ----------------------------------------------

  bool changed() const noexcept { return !changed_.empty() || folded_; }
  /// Returns whether rows were folded, or accounts forgotten, since the last
  /// take_lines(). Then lines() must replace all kept lines.
  bool folded() const noexcept { return folded_; }
  /// Returns what changed since the last call, one line for each session. A
  /// line has the account and its changed rows, so that neither is kept without
  /// the other.
  std::vector<nlohmann::json> take_lines();
  /// Returns the line of one session, or nothing where it did not change.
  std::vector<nlohmann::json> take_lines(session_id only);
  /// Returns all lines.
  std::vector<nlohmann::json> lines() const;
  /// Reads a line back. A later line of the same session replaces it. Throws
  /// nlohmann::json::exception where it is no such line.
  void take(const nlohmann::json& line);

private:
  void trim();
  void fold(std::size_t rows, bool by_hour);
  usage_key folded(const usage_key& x, bool by_hour) const;
  nlohmann::json line(session_id session,
                      const std::set<std::int64_t>& starts) const;

  std::map<session_id, usage_account> accounts_;
  std::set<session_id> closed_;
  std::map<usage_key, control::usage> rows_;
  /// Hold the ends of the times that rows of hours, and rows of all time,
  /// cover.
  std::int64_t hours_until_ = 0;
  std::int64_t ever_until_ = 0;
  std::map<session_id, std::set<std::int64_t>> changed_; // rows' starts
  bool folded_ = false;
};

} // namespace vgpu
