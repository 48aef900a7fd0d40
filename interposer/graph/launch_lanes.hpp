// The resources of launches of graphs with conditions, besides the program's
// stream.
#pragma once

#include "interposer/graph/graph_condition.hpp"
#include "interposer/session/reply_slots.hpp"
#include "interposer/stream/stream_event.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Holds what a launch needs besides the program's stream. Later launches reuse
/// it.
struct lane {
  explicit lane(context& x);
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;
  ~lane();

  context& in;
  const std::uint64_t context_id;
  const std::unique_ptr<stream> side;
  const std::unique_ptr<event> begun;
  /// Counts the launches of this lane that have ended.
  device_word ended;
  std::uint32_t launches = 0;
  /// Each lane keeps its slots, so that a launch under way never waits for one.
  const slot_index value_slot;
  const slot_index turn_slot;
  const reply_arena::range value;
};

/// Holds the lanes of all contexts, and counts launches. It arms
/// session_part::before_release while launches are under way. Thread-safe.
class lane_store {
public:
  /// Returns a lane for a launch in that stream. Waits while too many are
  /// taken.
  CUresult take(stream& in, std::unique_ptr<lane>& out);
  /// Ends a launch, and takes back its lane, which is null where the launch
  /// never got one.
  void give(std::unique_ptr<lane> x);
  /// Destroys the idle lanes of a context that ends.
  void forget(const context& of);
  /// Waits until no launch is under way. It does not wait on the thread that
  /// runs the program's host functions, because launches wait for that thread.
  void wait_for_none();

private:
  std::unique_ptr<lane> idle_of(const context& in);
  static CUresult make(stream& in, std::unique_ptr<lane>& out);

  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<std::unique_ptr<lane>> idle_;
  std::atomic<std::size_t> taken_{0};
};

} // namespace vgpu::interposer
