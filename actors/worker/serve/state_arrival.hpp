// A session that begins with a state.
#pragma once

#include "actors/link/unix_socket.hpp"
#include "actors/state/state_transfer.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "actors/worker/serve/replay_progress.hpp"
#include "actors/worker/serve/session_identity.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// Restores the state that a client brings: from files that a client of this
/// host hands over, or part by part from one elsewhere, which is asked for
/// each. A session is restored once; after a fault this worker is of no use,
/// and says why. One thread.
class state_arrival {
public:
  state_arrival(const session_identity& identity, executor& exec,
                forwarded_source& forwarded, replay_progress& progress,
                heartbeat_thread& heartbeats)
      : identity_(identity), exec_(exec), forwarded_(forwarded),
        progress_(progress), heartbeats_(heartbeats) {}

  /// Whether a client that attaches brings a state that is needed here.
  bool is_wanted(const data::attach& by) const noexcept {
    return by.restore != 0 && !restored_;
  }
  /// Whether a state was restored here.
  bool is_done() const noexcept { return restored_; }
  /// Why no state could be made here; empty where none failed.
  const std::string& failure() const noexcept { return failure_; }

  /// Restores the state that came with a client's first word. `adopt`: the
  /// state's file is the worker's.
  status restore(packet& hello, bool adopt);
  /// Restores a state from its file. `adopt`: as above. `lent`: the memory that
  /// comes along with the state.
  status restore(int file, bool adopt, std::vector<unique_fd> lent = {});

  /// Begins to ask the client elsewhere for its state, or goes on where its
  /// connection broke.
  void begin(const data::attach& by);
  /// Whether a state is under way: no call is executed meanwhile.
  bool is_under_way() const noexcept { return inflow_.has_value(); }
  /// Takes a part. Returns the client's word when the state was complete, and
  /// the session is restored.
  std::optional<data::attach> take(const data::state_part& x,
                                   const parcel_ptr& in);

private:
  void ask();

  const session_identity& identity_;
  executor& exec_;
  forwarded_source& forwarded_;
  replay_progress& progress_;
  heartbeat_thread& heartbeats_;

  std::optional<state_inflow> inflow_;
  data::attach by_; // the client that the state comes from
  bool restored_ = false;
  std::string failure_;
};

} // namespace vgpu
