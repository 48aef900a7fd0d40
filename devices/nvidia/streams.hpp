// The session's streams and events on the real device.
#pragma once

#include "devices/nvidia/completions.hpp"
#include "schema/ids.hpp"

#include <span>
#include <unordered_map>
#include <vector>

namespace vgpu::device::nvidia {

/// Host words that streams wait for: one of each stream that ever called a
/// host function. Pinned memory that stays until the process ends.
class gate_words {
public:
  using word = std::atomic<std::uint32_t>;

  explicit gate_words(driver_ptr api) : api_(std::move(api)) {}
  /// A word that is 0 and nobody else's.
  result<word*> take();

private:
  driver_ptr api_;
  std::span<word> left_;
};

/// Maps handles to the driver's streams and events, and knows without asking
/// the driver what is done. Called by the session's one thread; completions
/// run on the thread of `completions`.
class streams {
public:
  streams(driver_ptr api, completions& waits);

  /// The CUDA legacy stream is there from the beginning.
  status create(stream_id id, bool non_blocking, int priority);
  status destroy(stream_id id);

  /// The driver's stream, for work that the caller enqueues at once; a fault
  /// where there is no such stream.
  result<CUstream> work_in(stream_id id);

  status create_event(event_id id, bool timing);
  status destroy_event(event_id id);
  status record(event_id id, stream_id in);
  status wait(stream_id in, event_id id);
  result<bool> query(event_id id);
  result<float> elapsed(event_id from, event_id to);

  bool idle(stream_id id);
  /// `tell` runs when the stream's work so far is done; at once, with
  /// `so_far`, where it is known to be.
  void when_done(stream_id id, CUresult so_far, completion tell);
  /// Likewise for all work in all streams.
  void when_all_done(CUresult so_far, completion tell);
  void when_recorded(event_id id, CUresult so_far, completion tell);

  /// The stream stops here, calls `start`, and goes on when its argument is
  /// called. `start` is not called after an error.
  status host_call(stream_id id,
                   std::function<void(std::function<void()> go_on)> start);
  /// Whether some stream waits for a host function's end.
  bool host_calls_pending() const noexcept { return *host_calls_ != 0; }

private:
  struct stream {
    CUstream handle = nullptr;
    bool blocking = true;
    std::shared_ptr<lane> in = std::make_shared<lane>();
    std::uint64_t last = 0;  // number of its last work
    std::uint64_t after = 0; // legacy: and of those that it waits for
    gate_words::word* gate = nullptr;
    std::uint32_t host_calls = 0;
  };
  struct event {
    bool timing = true;
    event_ref handle;
    std::shared_ptr<lane> in; // of its latest record; null: none yet
    std::uint64_t number = 0;
  };

  stream* find(stream_id id);
  event* find(event_id id);
  void worked(stream& x);
  result<event_ref> mark(stream& x);
  void wait_for(stream& x, std::uint64_t until, completion tell);

  driver_ptr api_;
  completions& waits_;
  event_pool pool_;
  gate_words gates_;
  std::shared_ptr<std::atomic<std::uint32_t>> host_calls_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
  std::unordered_map<stream_id, stream> streams_;
  std::unordered_map<event_id, event> events_;
  std::vector<event> leaving_; // ends of destroyed streams
  stream* legacy_ = nullptr;
  std::uint64_t number_ = 0; // of the last work
};

} // namespace vgpu::device::nvidia
