// Sends a program elsewhere what kernels write into host memory that they use
// in place.
#pragma once

#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "actors/worker/serve/replay_progress.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace vgpu {

/// Relays kernels' writes to a program that reads the memory and makes no call
/// meanwhile, until the enqueued work is done. (Before each answer
/// forwarded_answers does it.) It relays nothing while a replay restores the
/// memory's contents. Not thread-safe.
class zero_copy_relay {
public:
  /// Says how often it relays kernels' writes to a program that makes no calls.
  static constexpr std::chrono::milliseconds every{2};

  zero_copy_relay(executor& exec, const forwarded_source& client,
                  const client_silence& silence, replay_progress& progress,
                  heartbeat_thread& heartbeats)
      : exec_(exec), client_(client), silence_(silence), progress_(progress),
        heartbeats_(heartbeats) {}

  /// Returns whether kernels may have written something that was not relayed.
  bool is_due() const;
  /// Relays what kernels wrote by now, if it is time.
  void relay();
  /// Ends a replay: waits for the work that the program knew to be done, and
  /// lets the answers go that had to wait for it.
  void end_replay();

private:
  using clock = std::chrono::steady_clock;

  executor& exec_;
  const forwarded_source& client_;
  const client_silence& silence_;
  replay_progress& progress_;
  heartbeat_thread& heartbeats_;

  /// Holds the call after which done_ was requested.
  std::uint64_t until_ = 0;
  /// Tells whether the work up to that call is done.
  std::shared_ptr<std::atomic<bool>> done_;
  /// Tells whether everything that this work wrote was relayed.
  bool published_ = true;
  clock::time_point again_{};
};

} // namespace vgpu
