// The election of a leader among several managers, as one candidate runs it:
// etcd's answers and time in, questions out. It knows no actor, no socket and
// no clock.
#pragma once

#include "actors/manager/election/etcd_access.hpp"
#include "policies/placement/views.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace vgpu {

using policy::time_point;

/// Says how many numbers of sessions and vGPUs a leader reserves at a time.
inline constexpr std::uint64_t numbers_at_a_time = 10'000;

struct election_options {
  std::string endpoint; // of this manager, as others see it
  /// Says how long a leader leads without renewing its lease. Etcd grants at
  /// least 2 s.
  std::chrono::seconds lease{2};
  /// Says how often a standby manager asks etcd who leads.
  std::chrono::milliseconds look_every{100};
  /// Returns the latest term and the highest number that this manager knows by
  /// itself, since a new etcd knows none.
  std::function<etcd::record()> known = [] { return etcd::record{}; };
};

/// Says by what right a manager leads.
struct mandate {
  std::uint64_t term = 0; // 0: a single manager without election
  /// Holds the number after which this manager's own numbers begin. They end
  /// with the record's.
  std::uint64_t after = 0;
  etcd::record kept;
};

/// Draws the states of a candidate:
///
///   watching ──nobody leads──► granting ──► taking ──► leading
///      ▲  ▲                       │failed     │failed,    │ lease over by its
///      own │  └───────────────────────┘           │too late   │ clock, or
///      etcd's word └──────── revokes the lease ◄──────────┴───────────┘
///
/// resign() leads from every state to `over`, by way of revoking.
///
/// Not thread-safe. Every call gives the time, which never goes back. One
/// question is under way at a time.
class election {
public:
  using asker = std::function<void(std::uint64_t number, etcd::question what,
                                   std::chrono::milliseconds within)>;

  election(election_options options, asker ask, time_point now);
  election(const election&) = delete;
  election& operator=(const election&) = delete;

  /// Takes an answer, and ignores one to an earlier question.
  void on_answer(const etcd_answer& x, time_point now);
  /// Call it at next_deadline(), or at any time.
  void on_time(time_point now);
  time_point next_deadline() const noexcept;

  /// Returns whether it may act as leader at this moment. Call on_time() with
  /// the same moment before.
  bool leads() const noexcept { return stage_ == stage::leading; }
  /// Returns the mandate of its present or latest term.
  const mandate& right() const noexcept { return right_; }
  /// Returns the known leader, which may be this manager.
  const std::optional<etcd::leader>& leader() const noexcept { return leader_; }

  /// Makes etcd keep this record. Call it only while it leads. When etcd has
  /// it, right() holds it.
  void keep(etcd::record what, time_point now);

  /// Gives up the lead for good. From here on it may not act as leader.
  void resign(time_point now);
  /// Returns whether it has resigned, and etcd knows it or cannot be reached.
  bool over() const noexcept { return stage_ == stage::over; }

private:
  enum class stage { watching, granting, taking, leading, resigning, over };
  struct pending {
    std::uint64_t number = 0;
    time_point sent;
    time_point due;
  };

  void ask(etcd::question what, time_point now);
  void ask_next(time_point now);
  void take_lead(time_point now);
  void lose(const std::string& why, time_point now);
  void pause(time_point now);

  void handle(const etcd::seen& x, time_point sent, time_point now);
  void handle(const etcd::granted& x, time_point sent, time_point now);
  void handle(const etcd::taken& x, time_point sent, time_point now);
  void handle(const etcd::renewed& x, time_point sent, time_point now);
  void handle(const etcd::kept& x, time_point sent, time_point now);
  void handle(const etcd::revoked& x, time_point sent, time_point now);
  void handle(const etcd::failed& x, time_point sent, time_point now);

  std::chrono::milliseconds patience() const noexcept;
  void valid_from(time_point sent);
  void go_on_leading(time_point now);

  election_options options_;
  asker ask_;
  stage stage_ = stage::watching;
  std::optional<pending> pending_;
  std::uint64_t last_number_ = 0;
  time_point next_; // when to ask next
  time_point renew_at_;
  std::int64_t lease_ = 0;
  /// Holds a lease that it does not need any more, and that may hold the key.
  std::int64_t former_ = 0;
  std::chrono::seconds length_{0}; // as etcd gave it
  time_point until_;               // end of its lease
  time_point over_by_;             // deadline of resigning
  std::optional<etcd::leader> leader_;
  etcd::seen last_seen_;
  std::uint64_t latest_term_ = 0; // the latest seen
  etcd::record proposed_;         // of the take or keep under way
  std::optional<etcd::record> to_keep_;
  mandate right_;
  bool failure_reported_ = false;
};

} // namespace vgpu
