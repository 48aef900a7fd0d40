// Who used how much, and when: the cluster's accounts.
#pragma once

#include "actors/records/usage.hpp"
#include "schema/base/ids.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace vgpu {

/// Whom a session's use is charged to.
struct usage_owner {
  vgpu_id vgpu;
  std::string vm; // the program's host
  std::string user;
  std::string program;
  auto operator<=>(const usage_owner&) const = default;
};

/// A session, and the totals that its workers told, by epoch.
struct usage_account {
  usage_owner owner;
  std::map<vgpu::epoch, control::usage> told;
  /// Of epochs before this one nothing more is heard.
  vgpu::epoch settled;
  control::usage total; // of all epochs
  bool closed = false;
  bool operator==(const usage_account&) const = default;
};

/// What was used within some time. A session of zero: several, whose rows were
/// folded into one.
struct usage_key {
  std::int64_t start = 0; // seconds since 1970; 0: since ever
  session_id session;
  usage_owner owner;
  auto operator<=>(const usage_key&) const = default;
};

/// In the units that bills are made of: seconds, bytes, MiB times seconds.
nlohmann::json bill_of(const control::usage& x);

/// The accounts of a cluster. Workers tell totals, so that what is told twice
/// or not at all changes nothing, and what a former worker tells late is added
/// to what the present one told. A value; one thread.
///
/// What was used lies in rows: of each session one a minute. When there are
/// more than `most_rows`, the older half become one row an hour; if that is too
/// little, one row for each VM, user and program, and from `most_owners` of
/// those on one for all others. So no use is ever lost, but when it was, and
/// whose of many.
class usage_book {
public:
  static constexpr std::size_t most_rows = 20'000;
  static constexpr std::size_t most_owners = 1'000;
  /// Accounts of sessions that are closed, and whose nodes may yet tell more.
  static constexpr std::size_t most_closed = 10'000;
  /// Epochs of one session of which more may be heard.
  static constexpr std::size_t most_epochs = 8;
  static constexpr std::int64_t minute = 60;
  static constexpr std::int64_t hour = 3'600;

  /// From now on the session's use is known to be this owner's.
  void open(session_id session, const usage_owner& owner);
  /// It has no worker any more. A report may still come.
  void close(session_id session);
  bool knows(session_id session) const { return accounts_.contains(session); }

  /// A worker of this epoch has used so much in all. False where nothing is
  /// new, or the session has no account.
  bool report(session_id session, vgpu::epoch era, const control::usage& total,
              double now);

  /// What a session used in all its epochs.
  control::usage of(session_id session) const;
  std::size_t rows() const noexcept { return rows_.size(); }

  /// What was used since then, by "vm", "user", "program" or "vgpu":
  /// {"by", "since", "now", "entries"}. The row that the time falls into counts
  /// as a whole; "since" says when that began.
  nlohmann::json summary(double since, const std::string& by, double now) const;

  // -- what survives its manager ----------------------------------------------

  bool changed() const noexcept { return !changed_.empty() || folded_; }
  /// Whether rows were folded, or accounts forgotten, since the last
  /// take_lines() of all: then lines() is to be kept in place of all before.
  bool folded() const noexcept { return folded_; }
  /// What changed since the last call, a line a session: its account and the
  /// rows that changed with it, so that neither is kept without the other.
  std::vector<nlohmann::json> take_lines();
  /// The same for one session; nothing where it did not change.
  std::vector<nlohmann::json> take_lines(session_id only);
  /// All there is.
  std::vector<nlohmann::json> lines() const;
  /// Takes a line back; a later one of the same session counts. Throws
  /// nlohmann::json::exception where it is none.
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
  /// Rows of hours end there, and rows of all time.
  std::int64_t hours_until_ = 0;
  std::int64_t ever_until_ = 0;
  std::map<session_id, std::set<std::int64_t>> changed_; // rows' starts
  bool folded_ = false;
};

} // namespace vgpu
