// Streams and events, as the program's side knows them.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/handle_table.hpp"
#include "interposer/session/reply_slots.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/shared_resource.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace vgpu::interposer {

struct capture;

/// The answer to "is it done yet", asked for once: asking again polls.
struct pending_query {
  std::mutex mutex;
  ticket asked;
};

/// How far into the log a stream's work is known to be done; shared with the
/// events that were recorded in it.
using progress = std::shared_ptr<std::atomic<std::uint64_t>>;

/// A stream. `last_work` says where in the log its latest work is, so that
/// waiting for a stream that is known to be done costs nothing.
struct stream {
  stream(context& in, stream_id wire_id, unsigned with_flags,
         int with_priority);

  context& owner;
  /// Where it was made: the owner, or a green context of it.
  context& within;
  const stream_id wire;
  const unsigned flags;
  const int priority;
  const std::uint64_t id; ///< cuStreamGetId
  std::atomic<std::uint64_t> last_work{0};
  const progress done_until = std::make_shared<progress::element_type>(0);
  pending_query query;
  std::atomic<capture*> captured_by{nullptr};
  /// Call number of the latest host function, or wait for a value, that its
  /// work is behind (host_call.hpp); it may be done.
  std::atomic<std::uint64_t> behind{0};
  /// The legacy stream: of the blocking ones.
  std::atomic<std::uint64_t> blocking_behind{0};
  /// What was appended to it while such a one was pending anywhere.
  std::atomic<std::uint32_t> since_held{0};

  std::uint8_t device() const noexcept { return owner.device_index(); }
  bool is_captured() const noexcept {
    return captured_by.load(std::memory_order_relaxed) != nullptr;
  }
  bool is_legacy() const noexcept { return wire == legacy_stream; }
  bool non_blocking() const noexcept {
    return (flags & CU_STREAM_NON_BLOCKING) != 0;
  }
  /// Work was appended to it. Waits where too much is behind a host function.
  void worked(call_number call);
  /// Its work comes behind that call of the program from now on.
  void wait_behind(std::uint64_t call) noexcept;
};

/// An event.
struct event {
  event(context& in, event_id wire_id, unsigned with_flags);

  context& owner;
  const event_id wire;
  const unsigned flags;
  /// Call number of its latest record; 0 when never recorded.
  std::atomic<std::uint64_t> recorded{0};
  /// Records up to this call number are known to be done.
  std::atomic<std::uint64_t> done_until{0};
  /// stream::behind, at its latest record.
  std::atomic<std::uint64_t> behind{0};
  pending_query query;
  /// Of the stream of its latest record; guarded by the query's mutex.
  progress recorded_in;
  CUevent handle = nullptr;
  /// Other processes may record it too: only the worker knows what is latest.
  std::atomic<bool> shared{false};
  /// Its latest record was under capture.
  std::atomic<capture*> captured_by{nullptr};

  std::uint8_t device() const noexcept { return owner.device_index(); }
  bool is_captured() const noexcept {
    return captured_by.load(std::memory_order_relaxed) != nullptr;
  }
  bool timed() const noexcept { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }
};

/// These hold what the program has handles of. Precondition: the driver's state
/// is made.
handle_table<stream>& streams() noexcept;
handle_table<event>& events() noexcept;

/// What a CUstream argument names in this context: 0 is the default stream,
/// which is the calling thread's own for the `per_thread` entry points. Null
/// when it names nothing.
stream* find_stream(context& in, CUstream handle, bool per_thread);
/// Likewise, in the calling thread's context. That is asked for default streams
/// alone: others are known by their handles, whatever is current. What is wrong
/// with the context or the handle, or CUDA_SUCCESS.
CUresult find_usable_stream(CUstream handle, bool per_thread, stream*& out);

/// Makes a stream that belongs to nobody's table.
std::unique_ptr<stream> make_stream(context& in, unsigned flags, int priority);
/// One that the program does not know: no part of its context's streams.
std::unique_ptr<stream> make_hidden_stream(context& in);
std::unique_ptr<event> make_event(context& in, unsigned flags);
/// An event that is another process's too.
CUresult import_event(context& in, const share_name& what, std::uint32_t host,
                      std::unique_ptr<event>& out);
/// Tells the worker that the stream is gone, and abandons its query.
void retire_stream(stream& x);
void retire_hidden_stream(stream& x);
void retire_event(event& x);

/// Waits until the stream's work so far is done; delivers printed text.
CUresult synchronise(stream& x);
/// CUDA_ERROR_NOT_READY while it is not done.
CUresult query(stream& x);
CUresult record(event& x, stream& in);
/// What comes in the stream from now on waits for the event's latest record.
CUresult wait(stream& in, event& x);
CUresult synchronise(event& x);
CUresult query(event& x);
CUresult elapsed(event& from, event& to, float& milliseconds);

} // namespace vgpu::interposer
