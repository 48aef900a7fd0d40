// The session's streams and events on the real device.
#pragma once

#include "devices/interface/sharing_unit.hpp"
#include "devices/nvidia/streams/device_timeline.hpp"
#include "schema/base/awaited_value.hpp"
#include "schema/base/ids.hpp"

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace vgpu::device::nvidia {

/// Maps handles to the driver's streams and events, and knows without asking
/// the driver what is done. Called by the session's one thread; completions
/// run on the thread of `completions`.
class streams {
public:
  /// `with_events` is asked whether ends of work must be events that can be
  /// synchronised with, rather than words, which are quicker.
  streams(driver_ptr api, completions& waits, timeline& times,
          std::function<bool()> with_events);

  /// Makes the legacy stream; before all else, in the context.
  status open();

  status create(stream_id id, bool non_blocking, int priority);
  status destroy(stream_id id);

  /// The driver's stream, for work that the caller enqueues at once; a fault
  /// where there is no such stream.
  result<CUstream> work_in(stream_id id);
  /// The host is long with what comes next in this stream; else what it does
  /// meanwhile would count as the device's work.
  void pause(stream_id id);

  status create_event(event_id id, bool timing);
  status destroy_event(event_id id);
  status record(event_id id, stream_id in);
  status wait(stream_id in, event_id id);
  /// The stream waits until a word of memory holds a value.
  status wait(stream_id in, const awaited_value& what);
  result<bool> query(event_id id);
  result<float> elapsed(event_id from, event_id to);

  /// The event is another process's too from now on, with its latest record.
  result<shared_object> share(event_id id);
  status import(event_id id, const shared_object& from);

  bool idle(stream_id id);
  /// `tell` runs when the stream's work so far is done; at once, with
  /// `so_far`, where it is known to be.
  void when_done(stream_id id, CUresult so_far, completion tell,
                 completion_mode mode = completion_mode::polled);
  /// Likewise for all work in all streams. Of more than one that works, none is
  /// spun for.
  void when_all_done(CUresult so_far, completion tell,
                     completion_mode mode = completion_mode::polled);
  /// Likewise for a record, spinning first.
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
    std::shared_ptr<lane> in;
    std::uint32_t marks = 0;      // last value written into the lane's word
    std::uint64_t last = 0;       // number of its last work
    std::uint64_t after = 0;      // legacy: and of those that it waits for
    word_ref gate;                // that the ends of host functions write
    std::uint32_t host_calls = 0; // last value that is waited for in it
    timeline::span timed{};
  };
  struct event {
    bool timing = true;
    event_ref handle;
    stream_id of;             // of its latest record
    std::shared_ptr<lane> in; // of that stream; null: never recorded
    std::uint64_t number = 0;
    /// Of an event that other processes may record: a stream in which nothing
    /// is done but to wait for it, so that nobody else waits. What is done of
    /// it only the driver knows.
    std::shared_ptr<stream> watch{};
  };

  struct ending {
    std::shared_ptr<lane> in;
    lane::mark end;
    std::uint64_t number = 0;
  };

  stream* find(stream_id id);
  event* find(event_id id);
  void worked(stream& x);
  result<stream> fresh_stream(CUstream handle, bool blocking);
  result<std::shared_ptr<stream>> make_watch();
  result<lane::mark> mark(stream& x);
  void known_done(stream& x, std::uint64_t until);
  std::uint64_t last_of(const stream& x) const noexcept;
  bool is_done(const lane& in, std::uint64_t until);
  void wait_for(stream& x, std::uint64_t until, completion tell,
                completion_mode mode);

  driver_ptr api_;
  completions& waits_;
  timeline& times_;
  std::function<bool()> with_events_;
  event_pool pool_;
  shared_words words_;
  std::shared_ptr<std::atomic<std::uint32_t>> host_calls_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
  std::unordered_map<stream_id, stream> streams_;
  std::unordered_map<event_id, event> events_;
  std::vector<ending> leaving_; // destroyed streams
  stream* legacy_ = nullptr;
  std::size_t blocking_ = 0; // streams that wait for the legacy one, and it
  std::uint64_t number_ = 0; // of the last work
};

} // namespace vgpu::device::nvidia
