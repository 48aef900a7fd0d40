// Has another worker make the session's objects while this one executes calls.
#pragma once

#include "actors/worker/checkpoint/next_preparation.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/execute/state_capture.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "actors/worker/serve/replay_progress.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace vgpu {

/// Writes what the session has now into a file, piece by piece between calls,
/// because images may be large. Another worker makes the objects that the file
/// describes. Not thread-safe.
class objects_ahead {
public:
  /// Passes the file on, which stays open until there is an outcome.
  using passing =
      std::function<result<std::unique_ptr<prepared_next>>(int file)>;

  /// Begins the file. The executor and the others must outlive the object.
  static result<objects_ahead> begin(executor& exec, replay_progress& progress,
                                     heartbeat_thread& heartbeats,
                                     passing pass_on);

  /// Returns whether the file is not complete, so that look() has work.
  bool writes() const noexcept { return description_ != nullptr; }
  /// Writes the next piece, or looks whether the other worker has answered.
  /// Returns the outcome once there is one: whether it has made the objects.
  std::optional<status> look();
  /// Returns the position in the log at which the session had these objects.
  /// Precondition: the file is complete.
  std::uint64_t position() const noexcept { return position_; }
  /// Returns the way to the worker that has made the objects.
  prepared_next& maker() const noexcept { return *maker_; }

private:
  objects_ahead(replay_progress& progress, heartbeat_thread& heartbeats,
                passing pass_on)
      : progress_(&progress), heartbeats_(&heartbeats),
        pass_on_(std::move(pass_on)) {}

  status write_on();

  replay_progress* progress_;
  heartbeat_thread* heartbeats_;
  passing pass_on_;
  unique_fd file_{};
  std::shared_ptr<state_capture> description_{};
  std::unique_ptr<prepared_next> maker_{};
  std::uint64_t position_ = 0;
};

} // namespace vgpu
