// Streams and events of the program.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/handle_table.hpp"
#include "interposer/session/reply_slots.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/shared_resource.hpp"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace vgpu::interposer {

struct capture;

/// Holds a query, which asks the worker once whether work is done. Later
/// queries poll its answer.
struct pending_query {
  std::mutex mutex;
  ticket asked;
};

/// Holds the log position up to which a stream's work is known to be done.
/// Events that were recorded in the stream share it.
using progress = std::shared_ptr<std::atomic<std::uint64_t>>;

/// Holds what a stream keeps for cuStreamGetAttribute. Its priority is the
/// stream's own.
struct stream_attributes {
  CUaccessPolicyWindow window{};
  CUsynchronizationPolicy waits = CU_SYNC_POLICY_AUTO;
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  CUlaunchMemSyncDomainMap domains{0, 1};
  unsigned nvlink = 0;
};

/// Gives the range of the priorities of streams, as a driver does.
constexpr int least_priority = 0, greatest_priority = -5;
/// Returns the priority in the range that is nearest to `x`.
constexpr int as_priority(int x) noexcept {
  return std::clamp(x, greatest_priority, least_priority);
}

/// Represents a CUstream. `last_work` is the log position of its latest work,
/// so that waiting for a stream whose work is done costs nothing.
struct stream {
  stream(context& in, stream_id wire_id, unsigned with_flags,
         int with_priority);

  context& owner;
  /// Refers to the context in which the program made the stream: the owner, or
  /// one of its green contexts.
  context& within;
  const stream_id wire;
  const unsigned flags;
  std::atomic<int> priority;
  const std::uint64_t id; ///< the result of cuStreamGetId
  std::atomic<std::uint64_t> last_work{0};
  /// Holds the same for copies to the device whose bytes are in the log. The
  /// program sees the end of such a copy only in the end of later work.
  std::atomic<std::uint64_t> last_copy{0};
  /// Holds the same for the work of all blocking streams; used in the legacy
  /// stream only.
  std::atomic<std::uint64_t> last_blocking{0};
  const progress done_until = std::make_shared<progress::element_type>(0);
  pending_query query;
  std::mutex attributes_mutex;
  stream_attributes attributes;
  std::atomic<capture*> captured_by{nullptr};
  /// Holds the call number of the latest host function or wait for a value
  /// (host_call.hpp) that precedes the stream's later work. It may be done
  /// already.
  std::atomic<std::uint64_t> behind{0};
  /// Holds the same number for all blocking streams; used in the legacy stream
  /// only.
  std::atomic<std::uint64_t> blocking_behind{0};
  /// Counts the work that was appended while any such call was pending.
  std::atomic<std::uint32_t> since_held{0};

  std::uint8_t device() const noexcept { return owner.device_index(); }
  bool is_captured() const noexcept {
    return captured_by.load(std::memory_order_relaxed) != nullptr;
  }
  bool is_legacy() const noexcept { return wire == legacy_stream; }
  bool non_blocking() const noexcept {
    return (flags & CU_STREAM_NON_BLOCKING) != 0;
  }
  /// Notes that work was appended to the stream. Waits where too much work
  /// follows a pending host function.
  void worked(call_number call);
  /// Notes a copy to the device, as worked() does for other work.
  void copied(call_number call);
  /// Returns the log position of the latest work that a wait for the stream
  /// waits for, and whose end the program can see.
  std::uint64_t last_seen() const noexcept {
    return std::max(last_work.load(std::memory_order_acquire),
                    last_blocking.load(std::memory_order_acquire));
  }
  /// Returns the same for all work.
  std::uint64_t last() const noexcept {
    return std::max(last_seen(), last_copy.load(std::memory_order_acquire));
  }
  /// Notes that the stream's later work comes after this host function or wait.
  void wait_behind(std::uint64_t call) noexcept;
};

/// Represents a CUevent.
struct event {
  event(context& in, event_id wire_id, unsigned with_flags);

  context& owner;
  const event_id wire;
  const unsigned flags;
  /// Holds the call number of its latest record, or 0 where it was never
  /// recorded.
  std::atomic<std::uint64_t> recorded{0};
  /// Holds the call number up to which records are known to be done.
  std::atomic<std::uint64_t> done_until{0};
  /// Holds the value of stream::behind at its latest record.
  std::atomic<std::uint64_t> behind{0};
  pending_query query;
  /// Holds the progress of the stream of its latest record. The query's mutex
  /// guards it.
  progress recorded_in;
  CUevent handle = nullptr;
  /// Tells whether other processes may record the event too. Then only the
  /// worker knows its latest record.
  std::atomic<bool> shared{false};
  /// Points to the capture in which it was last recorded, or is null.
  std::atomic<capture*> captured_by{nullptr};

  std::uint8_t device() const noexcept { return owner.device_index(); }
  bool is_captured() const noexcept {
    return captured_by.load(std::memory_order_relaxed) != nullptr;
  }
  bool timed() const noexcept { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }
};

/// Returns the process's streams by handle. Precondition: the driver's state is
/// made.
handle_table<stream>& streams() noexcept;
/// Returns the process's events by handle. Precondition: the driver's state is
/// made.
handle_table<event>& events() noexcept;

/// Finds the stream that a CUstream argument names in this context, or null
/// where there is none. 0 names the default stream, which is the calling
/// thread's own for the `per_thread` entry points.
stream* find_stream(context& in, CUstream handle, bool per_thread);
/// Finds the stream that a CUstream argument names for the calling thread, or
/// returns the error of the context or the handle. Only default streams depend
/// on the thread's current context.
CUresult find_usable_stream(CUstream handle, bool per_thread, stream*& out);

/// Makes a stream that is in no table.
std::unique_ptr<stream> make_stream(context& in, unsigned flags, int priority);
/// Makes a stream for this library's own use, which is not in its context's set
/// of streams.
std::unique_ptr<stream> make_hidden_stream(context& in);
/// Makes an event that is in no table.
std::unique_ptr<event> make_event(context& in, unsigned flags);
/// Opens an event that another process shares.
CUresult import_event(context& in, const share_name& what, std::uint32_t host,
                      std::unique_ptr<event>& out);
/// Destroys the stream in the worker, and abandons its query.
void retire_stream(stream& x);
/// Retires a stream that make_hidden_stream() made.
void retire_hidden_stream(stream& x);
/// Destroys the event in the worker, and abandons its query.
void retire_event(event& x);

/// Waits until the stream's work so far is done, and writes out the text of
/// kernels.
CUresult synchronise(stream& x);
/// Waits until all work is done that the stream's next work would wait for, but
/// not for copies to the device that nothing follows.
CUresult finish_work(stream& x);
/// Tells whether all work that the stream's next work would wait for is known
/// to be done.
bool is_idle(const stream& x) noexcept;
/// Returns CUDA_ERROR_NOT_READY while the stream's work is not done.
CUresult query(stream& x);
/// Records the event after the stream's work so far.
CUresult record(event& x, stream& in);
/// Makes the stream's later work wait for the event's latest record.
CUresult wait(stream& in, event& x);
/// Waits until the event's latest record is done.
CUresult synchronise(event& x);
/// Returns CUDA_ERROR_NOT_READY while the event's latest record is not done.
CUresult query(event& x);
/// Returns in `milliseconds` the time between two records.
CUresult elapsed(event& from, event& to, float& milliseconds);

} // namespace vgpu::interposer
