// The session's streams and events on an NVIDIA GPU.
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

/// Maps handles to the driver's streams and events, and remembers which work is
/// known to be done. The session's one thread makes all calls. Completions run
/// on the thread of `completions`, or on the calling thread.
class streams {
public:
  /// Makes the streams. `with_events` tells whether the end of work must be an
  /// event, which can be synchronised with, and not a word, which is quicker.
  streams(driver_ptr api, completions& waits, timeline& times,
          std::function<bool()> with_events);

  /// Makes the legacy stream. This is the first call, with the context current.
  status open();

  /// Creates a stream.
  status create(stream_id id, bool non_blocking, int priority);
  /// Destroys a stream. Its enqueued work still runs.
  status destroy(stream_id id);

  /// Returns the driver's stream, for work that the caller enqueues at once, or
  /// a fault where there is no such stream.
  result<CUstream> work_in(stream_id id);
  /// Returns the driver's stream, to set a property of it, or a fault where
  /// there is no such stream.
  result<CUstream> handle_of(stream_id id);
  /// Announces that the host will take long with the next work of this stream.
  /// Otherwise that time would count as the device's work.
  void pause(stream_id id);

  /// Creates an event.
  status create_event(event_id id, bool timing);
  /// Destroys an event.
  status destroy_event(event_id id);
  /// Records an event in a stream.
  status record(event_id id, stream_id in);
  /// Lets a stream wait for an event's latest record.
  status wait(stream_id in, event_id id);
  /// Lets a stream wait until a word of memory holds a value.
  status wait(stream_id in, const awaited_value& what);
  /// Tells whether the event's latest record is done.
  result<bool> query(event_id id);
  /// Returns the milliseconds between two completed records.
  result<float> elapsed(event_id from, event_id to);

  /// Makes an event shareable, with its latest record.
  result<shared_object> share(event_id id);
  /// Creates an event from one that another process shares.
  status import(event_id id, const shared_object& from);

  /// Tells whether the stream's work so far is done.
  bool idle(stream_id id);
  /// Calls `tell` when the stream's work so far is done. Calls it at once, with
  /// `so_far`, where the work is known to be done.
  void when_done(stream_id id, CUresult so_far, completion tell,
                 completion_mode mode = completion_mode::polled);
  /// Calls `tell` when all work in all streams is done; at once, with `so_far`,
  /// where it is known to be. Does not busy-poll where more than one stream
  /// works.
  void when_all_done(CUresult so_far, completion tell,
                     completion_mode mode = completion_mode::polled);
  /// Calls `tell` when the event's latest record is done; at once, with
  /// `so_far`, where it is known to be. Busy-polls first.
  void when_recorded(event_id id, CUresult so_far, completion tell);

  /// Stops the stream here and calls `start` when the stream gets there. The
  /// stream continues when the argument of `start` is called. `start` is not
  /// called after an error.
  status host_call(stream_id id,
                   std::function<void(std::function<void()> go_on)> start);
  /// Tells whether a stream waits for the end of a host function.
  bool host_calls_pending() const noexcept { return *host_calls_ != 0; }

private:
  struct stream {
    CUstream handle = nullptr;
    bool blocking = true;
    std::shared_ptr<lane> in;
    std::uint32_t marks = 0; // the last value written into the lane's word
    std::uint64_t last = 0;  // the number of its last work
    /// Holds the number of the last work that the legacy stream waits for.
    /// Other streams do not use it.
    std::uint64_t after = 0;
    word_ref gate;                // the word that ends of host functions write
    std::uint32_t host_calls = 0; // last value of the gate that it awaits
    timeline::span timed{};
  };
  struct event {
    bool timing = true;
    event_ref handle;
    stream_id of;             // the stream of its latest record
    std::shared_ptr<lane> in; // of that stream, null where never recorded
    std::uint64_t number = 0;
    /// Holds, for an event that other processes may record, a stream that does
    /// nothing but wait for the event, so that no other stream waits. Only the
    /// driver knows whether such a record is done.
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
  std::size_t blocking_ = 0; // streams that synchronise with the legacy one
  std::uint64_t number_ = 0; // the number of the last work
};

} // namespace vgpu::device::nvidia
