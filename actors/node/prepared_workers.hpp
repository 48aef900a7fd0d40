// Workers that a node starts before it is known when they are wanted: they open
// their devices, which may take long, and wait for their orders.
#pragma once

#include "actors/compute/usage_page.hpp"
#include "actors/link/protocol.hpp"
#include "actors/node/spawner.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

/// A process whose orders are still to come.
struct prepared_worker {
  control::prepare_worker order;
  std::uint64_t tag = 0; // of its process
  std::uint32_t pid = 0;
  /// What it used, as it writes itself; null where there was no memory.
  std::shared_ptr<usage_page> account;
  bool ready = false;                        // the manager knows
  std::chrono::steady_clock::time_point due; // not wanted any more then
};

/// Those of a node, at most one a session: a part of its supervisor, which
/// starts their processes and tells it the time and what becomes of them.
class prepared_workers {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// The manager is to hear that a session's is ready, or why there is none.
  using teller = std::function<void(session_id, const std::string& failure)>;

  prepared_workers(std::shared_ptr<spawner> children, teller tell);
  prepared_workers(const prepared_workers&) = delete;
  prepared_workers& operator=(const prepared_workers&) = delete;

  /// Its process was started. The session has none: else drop() it first.
  void add(prepared_worker x);
  /// The one that waits for these orders. One that has opened something else is
  /// dropped.
  std::optional<prepared_worker> take(const control::start_worker& order);
  /// Not wanted any more: it is killed.
  void drop(session_id id);
  void drop_all();
  /// The same; the manager, if it still waits for one of them, hears why.
  void drop_all(const std::string& why);

  /// It says that it has opened its devices, or why it cannot; until then its
  /// orders have to come.
  void on_ready(session_id id, const std::string& failure, time_point until);
  /// Whether it is one of these that was to begin.
  bool on_started(const child_started& x);
  /// The session, if it was one of these that ended.
  std::optional<session_id> on_exited(const child_exited& gone);
  void on_time(time_point now);

  /// Of those that were dropped all have ended.
  bool nobody_ends() const noexcept { return dropped_.empty(); }

private:
  using by_session = std::map<session_id, prepared_worker>;

  by_session::iterator find(std::uint64_t tag);

  std::shared_ptr<spawner> children_;
  teller tell_;
  by_session waiting_;
  /// Of those that are not wanted any more and die, by tag.
  std::map<std::uint64_t, session_id> dropped_;
};

} // namespace vgpu
