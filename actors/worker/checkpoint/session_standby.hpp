// What a worker knows of its session's standby.
#pragma once

#include "actors/link/node_messages.hpp"
#include "schema/wire/next_worker.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace vgpu {

/// Follows the standby of one session: a prepared worker at the same place,
/// which the node uses when this one dies. It has open devices and the objects
/// of the newest snapshot (docs/decisions/0036-standby-workers.md). Not
/// thread-safe.
///
///              ┌──────── it is outdated ─────┐
///              ▼                             │
///   none ──► asked ──► ready ──► making ──► made
///     ▲        │         │          │        │
///     └────────┴─────────┴──────────┴────────┘
///        the node has none, or it is useless
class session_standby {
public:
  using clock = std::chrono::steady_clock;
  /// Tells the node something. May be empty: there is no node.
  using teller = std::function<void(control::standby_news)>;

  explicit session_standby(teller tell) : tell_(std::move(tell)) {}

  /// Returns whether the snapshot that begins now may have a standby make the
  /// objects. Asks the node for one where that is time. A standby that has made
  /// objects is replaced where it is `outdated`, because the session has loaded
  /// modules since.
  bool wanted(clock::time_point now, bool outdated);
  /// Returns whether the node has not answered yet.
  bool awaited() const noexcept { return at_ == stage::asked; }
  /// Returns whether there is one that has not begun to make objects.
  bool is_ready() const noexcept { return at_ == stage::ready; }
  /// Takes the node's word: how to reach the standby, or that there is none.
  void changed(const next_worker& to, clock::time_point now);

  /// Returns the standby that is to make the objects now, or none.
  next_worker begin_making();
  /// Notes that it has made the objects that there were at this position.
  void made(std::uint64_t position);
  /// Notes that the newest snapshot is of this position.
  void covered(std::uint64_t position);
  /// Gives the standby up, if there is one.
  void give_up(clock::time_point now);

private:
  enum class stage : std::uint8_t { none, asked, ready, making, made };
  /// Says how soon after the node's last word another one is asked for.
  static constexpr std::chrono::seconds rest{30};

  void look();

  teller tell_;
  stage at_ = stage::none;
  next_worker to_{};
  std::optional<std::uint64_t> objects_at_{};
  std::optional<std::uint64_t> covered_at_{};
  clock::time_point rests_until_{};
};

} // namespace vgpu
