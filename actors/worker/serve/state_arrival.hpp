// Receives and restores the state with which a session begins.
#pragma once

#include "actors/link/unix_socket.hpp"
#include "actors/state/snapshot_inflow.hpp"
#include "actors/state/vgpu_actor.hpp"
#include "actors/worker/checkpoint/lent_parcel.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "actors/worker/serve/replay_progress.hpp"
#include "actors/worker/serve/session_identity.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Restores the state that a client brings: from files of a client of this
/// host, or from parts that it requests from a client elsewhere. A session is
/// restored once. After a fault this worker is useless, and failure() says why.
/// Not thread-safe.
class state_arrival {
public:
  state_arrival(const session_identity& identity, executor& exec,
                forwarded_source& forwarded, replay_progress& progress,
                heartbeat_thread& heartbeats, shared_file contents,
                std::shared_ptr<const lent_parcel> lent)
      : identity_(identity), exec_(exec), forwarded_(forwarded),
        progress_(progress), heartbeats_(heartbeats),
        contents_(std::move(contents)), lent_(std::move(lent)) {}

  /// Returns whether an attaching client brings a state that is needed here.
  bool is_wanted(const data::attach& by) const noexcept {
    return by.restore != 0 && !restored_;
  }
  /// Returns whether a state was restored here.
  bool is_done() const noexcept { return restored_; }
  /// Fails where objects were made here for a state, and none comes.
  status come_without();
  /// Says why no state could be restored here; empty where none failed.
  const std::string& failure() const noexcept { return failure_; }

  /// Restores the state that came with a client's first message.
  status restore(packet& hello, const data::attach& by);
  /// Restores a state from its file.
  status restore(int file, restore_terms how);

  /// Begins to request a state from a client elsewhere, or continues after its
  /// connection broke.
  void begin(const data::attach& by);
  /// Returns whether a state is arriving. No call is executed meanwhile.
  bool is_under_way() const noexcept { return inflow_.has_value(); }
  /// Takes a part. Returns the client's message once the state is complete and
  /// the session is restored.
  std::optional<data::attach> take(const data::state_part& x,
                                   const parcel_ptr& in);
  /// Returns, once, the file of the state that take() has restored, where it
  /// has not become the session's memory.
  unique_fd take_file() noexcept { return std::move(file_); }

private:
  void ask();
  status store(const data::state_part& x, const parcel_ptr& in);
  status restore_arrived();
  result<std::vector<unique_fd>> unpack_lent() const;
  unique_fd former_contents() const;
  fault fail(const fault& why);
  void refuse(const fault& why);

  const session_identity& identity_;
  executor& exec_;
  forwarded_source& forwarded_;
  replay_progress& progress_;
  heartbeat_thread& heartbeats_;
  /// Holds the former worker's copy of the session's memory, if it was on this
  /// host. What is copied from there is compared with its hash first, since
  /// that worker may still write to the file.
  shared_file contents_;
  /// Holds the memory that the former worker lends; may be null.
  std::shared_ptr<const lent_parcel> lent_;

  std::optional<snapshot_inflow> inflow_;
  unique_fd file_;
  data::attach by_; // the message of the client that has the state
  bool restored_ = false;
  std::string failure_;
};

} // namespace vgpu
