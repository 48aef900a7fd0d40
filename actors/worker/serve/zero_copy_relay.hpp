// What kernels write into host memory that they use in place, on its way to a
// program elsewhere.
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

/// Relays what kernels wrote to a program that looks at the memory and makes no
/// call meanwhile, until what was enqueued is done. (Before each answer
/// forwarded_answers does it.) While a replay brings the memory back to what it
/// was, nothing is relayed. One thread.
class zero_copy_relay {
public:
  /// How often a program that only looks hears of what kernels wrote.
  static constexpr std::chrono::milliseconds every{2};

  zero_copy_relay(executor& exec, const forwarded_source& client,
                  const client_silence& silence, replay_progress& progress,
                  heartbeat_thread& heartbeats)
      : exec_(exec), client_(client), silence_(silence), progress_(progress),
        heartbeats_(heartbeats) {}

  /// Whether kernels may write something that the program has not heard of.
  bool is_due() const;
  /// Relays what kernels wrote by now, if it is time.
  void relay();
  /// Ends a replay: waits until what the program knew to be done is, and lets
  /// answers that had to wait for that go.
  void end_replay();

private:
  using clock = std::chrono::steady_clock;

  executor& exec_;
  const forwarded_source& client_;
  const client_silence& silence_;
  replay_progress& progress_;
  heartbeat_thread& heartbeats_;

  /// The call up to which it is asked when the work is done.
  std::uint64_t until_ = 0;
  /// Whether that work is done.
  std::shared_ptr<std::atomic<bool>> done_;
  /// Whether all that this work wrote was relayed.
  bool published_ = true;
  clock::time_point again_{};
};

} // namespace vgpu
