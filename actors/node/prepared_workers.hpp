// Workers that a node starts before their orders come. They open their devices,
// which may take long, and wait.
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
#include <vector>

namespace vgpu {

/// Says why a worker is prepared.
enum class preparation : std::uint8_t {
  /// The manager moves the session to this node.
  movement,
  /// The session's worker here may die.
  standby
};

/// Describes a process that waits for its orders.
struct prepared_worker {
  control::prepare_worker order;
  preparation purpose = preparation::movement;
  /// Says which objects a standby has.
  enum class objects : std::uint8_t {
    none,
    /// Some are in no snapshot yet, so it can serve the session from none.
    newer,
    of_snapshot
  };
  objects has = objects::none;
  std::uint64_t tag = 0; // of its process
  std::uint32_t pid = 0;
  /// Holds the account that the worker writes; null where there was no memory.
  std::shared_ptr<usage_page> account;
  bool ready = false;                        // reported
  std::chrono::steady_clock::time_point due; // drop it after this
};

/// Holds a node's prepared workers, at most one for each session. It is a part
/// of the supervisor, which starts the processes and reports time and exits.
class prepared_workers {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Reports that a session's worker is ready, or why there is none: for a
  /// movement to the manager, and for a standby to the session's worker, which
  /// also learns of the standby's end.
  using teller = std::function<void(preparation, control::worker_prepared)>;

  prepared_workers(std::shared_ptr<spawner> children, teller tell);
  prepared_workers(const prepared_workers&) = delete;
  prepared_workers& operator=(const prepared_workers&) = delete;

  /// Adds a started process. Drop the session's former one first.
  void add(prepared_worker x);
  /// Returns the worker that these orders are for. Drops a worker that has
  /// opened other devices.
  std::optional<prepared_worker> take(const control::start_worker& order);
  /// Kills a worker that is not needed any more.
  void drop(session_id id);
  void drop_all();
  /// Kills those for movements, and reports `why` to a manager that still waits
  /// for one of them.
  void drop_movements(const std::string& why);
  /// Kills a session's standby, and reports `why`.
  void drop_standby(session_id id, const std::string& why);
  /// Kills a session's standby, in whose place another one is started.
  void replace_standby(session_id id);
  /// Keeps a session's standby, whose worker has ended, until then.
  void keep_standby(session_id id, time_point until);
  /// Says which objects a session's standby has.
  void note_objects(session_id id, prepared_worker::objects has);

  /// Handles a worker's report that it has opened its devices, or why it
  /// cannot. Its orders must come before `until`.
  void on_ready(const control::worker_prepared& x, time_point until);
  /// Returns whether this process is one of the prepared workers.
  bool on_started(const child_started& x);
  /// Returns the session if one of the prepared workers ended.
  std::optional<session_id> on_exited(const child_exited& gone);
  void on_time(time_point now);

  /// Returns whether the session has one that is not ending.
  bool has(session_id id) const { return waiting_.contains(id); }
  /// Returns whether the session has a standby with the objects of its newest
  /// snapshot.
  bool stands_by(session_id id) const;
  /// Returns the sessions with a standby on this pGPU.
  std::vector<session_id> standbys_on(std::uint32_t pgpu) const;
  /// Returns how many processes are standbys that are not ending.
  std::size_t standbys() const noexcept;
  /// Returns how many processes there are, with those that are ending.
  std::size_t processes() const noexcept {
    return waiting_.size() + dropped_.size();
  }
  /// Returns whether all dropped workers have ended.
  bool nobody_ends() const noexcept { return dropped_.empty(); }

private:
  using by_session = std::map<session_id, prepared_worker>;

  by_session::iterator find(std::uint64_t tag);
  prepared_worker* standby_of(session_id id);
  void tell(const prepared_worker& x, const std::string& failure) const;

  std::shared_ptr<spawner> children_;
  teller tell_;
  by_session waiting_;
  /// Holds the dropped workers that have not ended, by tag.
  std::map<std::uint64_t, session_id> dropped_;
};

} // namespace vgpu
