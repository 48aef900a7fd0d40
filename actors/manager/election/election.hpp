// One candidate for the lead among several managers: what etcd answers and time
// in, questions out. Knows no actor, no socket and no clock.
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

/// Numbers of sessions and vGPUs are a leader's by so many.
inline constexpr std::uint64_t numbers_at_a_time = 10'000;

struct election_options {
  std::string endpoint; // of this manager, for others to see
  /// How long a leader that says nothing still leads; etcd gives 2 s at least.
  std::chrono::seconds lease{2};
  /// How often a standby looks whether somebody leads.
  std::chrono::milliseconds look_every{100};
  /// The latest term, and the highest number given, that this manager knows of
  /// by itself: an etcd that was begun anew knows of none.
  std::function<etcd::record()> known = [] { return etcd::record{}; };
};

/// By what right a manager leads.
struct mandate {
  std::uint64_t term = 0; // 0: there is one manager, and it leads always
  /// Of its own are the numbers after this one, up to those of the record.
  std::uint64_t after = 0;
  etcd::record kept;
};

/// The life of a candidate:
///
///   watching ──nobody leads──► granting ──► taking ──► leading
///      ▲  ▲                       │failed     │failed,    │ lease over by its
///      own │  └───────────────────────┘           │too late   │ clock, or
///      etcd's word └──────── revokes the lease ◄──────────┴───────────┘
///
/// resign() leads from everywhere to `over`, by way of revoking.
///
/// One thread. Every call gives the time, which never goes back. One question
/// is under way at a time.
class election {
public:
  using asker = std::function<void(std::uint64_t number, etcd::question what,
                                   std::chrono::milliseconds within)>;

  election(election_options options, asker ask, time_point now);
  election(const election&) = delete;
  election& operator=(const election&) = delete;

  /// What is of an earlier question is left alone.
  void on_answer(const etcd_answer& x, time_point now);
  /// To be called at next_deadline(), or any time.
  void on_time(time_point now);
  time_point next_deadline() const noexcept;

  /// Whether it may act as leader at this moment: only if it says so after
  /// on_time() of the same moment.
  bool leads() const noexcept { return stage_ == stage::leading; }
  /// Of the present or latest time that it led.
  const mandate& right() const noexcept { return right_; }
  /// Who leads, as far as is known: perhaps this one.
  const std::optional<etcd::leader>& leader() const noexcept { return leader_; }

  /// Has the record in etcd become this; only while it leads. right() tells
  /// when it is there.
  void keep(etcd::record what, time_point now);

  /// Stands by for good. What it led it must not any more.
  void resign(time_point now);
  /// It has resigned, and etcd knows or cannot be told.
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
  /// A lease that it has no use for any more, and that may hold the key.
  std::int64_t former_ = 0;
  std::chrono::seconds length_{0}; // as etcd gave it
  time_point until_;               // it leads no longer than this
  time_point over_by_;             // resigning
  std::optional<etcd::leader> leader_;
  etcd::seen last_seen_;
  std::uint64_t latest_term_ = 0; // that was seen
  etcd::record proposed_;         // of the take, or the keep, that is under way
  std::optional<etcd::record> to_keep_;
  mandate right_;
  bool failure_reported_ = false;
};

} // namespace vgpu
