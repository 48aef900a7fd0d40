#include "interposer/stream/stream_event.hpp"

#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/stream/own_stream.hpp"
#include "interposer/stream/stream_part.hpp"
#include "interposer/stream/stream_set.hpp"

#include <bit>
#include <chrono>

namespace vgpu::interposer {

namespace {

using namespace std::chrono_literals;

/// A first query waits this long for its answer, which suffices where the work
/// is done already.
constexpr auto query_patience = 500us;

std::uint64_t next_id() noexcept {
  return stream_part::get().last_id.fetch_add(1, std::memory_order_relaxed) + 1;
}

void raise(std::atomic<std::uint64_t>& x, std::uint64_t to) noexcept {
  for (auto now = x.load(std::memory_order_relaxed); now < to;)
    if (x.compare_exchange_weak(now, to, std::memory_order_release,
                                std::memory_order_relaxed))
      break;
}

bool is_done(const stream& x, std::uint64_t last) noexcept {
  return last <= x.done_until->load(std::memory_order_acquire) ||
         last <= here().done_until(x.device());
}

bool is_done(const stream& x) noexcept {
  return is_done(x, x.last());
}

/// Tells whether the event's latest record is known to be done. Precondition:
/// the query's mutex is held.
bool is_done(const event& x) noexcept {
  auto last = x.recorded.load(std::memory_order_acquire);
  return last <= x.done_until.load(std::memory_order_acquire) ||
         last <= here().done_until(x.device()) ||
         (x.recorded_in &&
          last <= x.recorded_in->load(std::memory_order_acquire));
}

void learn_done(stream& x, std::uint64_t until) noexcept {
  raise(*x.done_until, until);
}

/// Notes that the event is done up to a call. The work of its stream before the
/// record is done too, unless the record came after the query. Precondition:
/// the query's mutex is held.
void learn_done(event& x, std::uint64_t until) noexcept {
  raise(x.done_until, until);
  if (auto at = x.recorded.load(); x.recorded_in && at <= until)
    raise(*x.recorded_in, at);
}

/// Asks the worker once, and then polls. `ask` appends the call that the worker
/// answers when the work is done.
template <class Object, class Ask>
CUresult poll_or_ask(Object& x, const Ask& ask) {
  auto& s = here();
  session_part::get().before_wait.run();
  std::lock_guard guard{x.query.mutex};
  // Twice, because an older query may have been answered, and more work
  // appended since.
  for (int round = 0; round < 2 && !is_done(x); ++round) {
    auto& asked = x.query.asked;
    auto fresh = !asked;
    // Where too many queries are open, this one waits for its answer.
    auto scarce = fresh && s.slots().scarce();
    if (fresh)
      asked = ask();
    auto got = fresh ? s.slots().wait_for(asked, query_patience)
                     : s.slots().poll(asked);
    while (!got && scarce) {
      s.idle()();
      got = s.slots().wait_for(asked, 100ms);
    }
    if (!got)
      return CUDA_ERROR_NOT_READY;
    auto number = asked.call.value;
    s.slots().give(asked.slot);
    asked = {};
    s.deliver_console();
    if (got->result != CUDA_SUCCESS)
      return got->result;
    learn_done(x, number);
  }
  if (!is_done(x))
    return CUDA_ERROR_NOT_READY;
  session_part::get().after_wait.run();
  return CUDA_SUCCESS;
}

/// Tells whether a query is still open, which means that the event is not done.
bool is_awaited(event& x) {
  std::lock_guard guard{x.query.mutex};
  return x.query.asked && !here().slots().poll(x.query.asked);
}

/// Asks the worker for the state of a shared event. An answer also means that
/// the worker has executed all earlier calls, on which other processes may then
/// rely.
CUresult ask_worker(const event& x) {
  auto got = on_occasion<occasion::sharing>(
      [&] { return here().ask(call::event_query{{x.wire}}, x.device()); });
  auto failed = here().sticky();
  return failed == CUDA_SUCCESS ? got.result : failed;
}

/// Abandons the query. Precondition: its mutex is held.
void drop_query(pending_query& x) {
  if (x.asked)
    here().slots().abandon(x.asked);
  x.asked = {};
}

} // namespace

stream::stream(context& in, stream_id wire_id, unsigned with_flags,
               int with_priority)
    : owner(in.root), within(in), wire(wire_id), flags(with_flags),
      priority(with_priority), id(wire_id.value) {}

void stream::worked(call_number call) {
  raise(last_work, call.value + 1);
  // A wait for the legacy stream includes the blocking streams.
  if (!is_legacy() && !non_blocking())
    raise(owner.legacy->last_blocking, call.value + 1);
  host_calls().work_appended(*this);
}

void stream::copied(call_number call) {
  raise(last_copy, call.value + 1);
  if (!is_legacy() && !non_blocking())
    raise(owner.legacy->last_copy, call.value + 1);
  host_calls().work_appended(*this);
}

void stream::wait_behind(std::uint64_t call) noexcept {
  raise(behind, call);
  if (!is_legacy() && !non_blocking())
    raise(owner.legacy->blocking_behind, call);
}

event::event(context& in, event_id wire_id, unsigned with_flags)
    : owner(in.root), wire(wire_id), flags(with_flags) {}

handle_table<stream>& streams() noexcept {
  return stream_part::get().streams;
}

handle_table<event>& events() noexcept {
  return stream_part::get().events;
}

namespace {

/// Tells whether a handle names a default stream of the current context.
bool is_default(CUstream handle) noexcept {
  return handle == nullptr || handle == CU_STREAM_LEGACY ||
         handle == CU_STREAM_PER_THREAD;
}

} // namespace

stream* find_stream(context& in, CUstream handle, bool per_thread) {
  if (handle == nullptr)
    return per_thread ? &own_stream(in) : in.legacy;
  if (handle == CU_STREAM_LEGACY)
    return in.legacy;
  if (handle == CU_STREAM_PER_THREAD)
    return &own_stream(in);
  return streams().find(handle);
}

CUresult find_usable_stream(CUstream handle, bool per_thread, stream*& out) {
  if (!is_default(handle)) {
    out = streams().find(handle);
    return out == nullptr ? CUDA_ERROR_INVALID_HANDLE : usable(&out->within);
  }
  auto* current = selected_context();
  auto why = usable(current);
  if (why != CUDA_SUCCESS) [[unlikely]]
    return why;
  // A green context has no streams of threads.
  if (current->is_green() &&
      (handle == CU_STREAM_PER_THREAD || (handle == nullptr && per_thread)))
    return CUDA_ERROR_INVALID_HANDLE;
  out = find_stream(*current, handle, per_thread);
  return CUDA_SUCCESS;
}

namespace {

/// A driver has channels for this many streams of a program, and for the
/// worker's own, from the start. To make one more, it waits for all streams
/// (docs/performance/calls.md, "Channels of a GPU").
constexpr int streams_with_channels = 24;

std::unique_ptr<stream> new_stream(context& in, unsigned flags, int priority,
                                   std::uint32_t kind) {
  auto made =
      std::make_unique<stream>(in, stream_id{next_id()}, flags, priority);
  auto append = [&] {
    here().send(call::stream_create{{made->wire}, kind, priority},
                in.device_index());
  };
  if (stream_part::get().existing.fetch_add(1) < streams_with_channels)
    append();
  else
    host_calls().append_alone(append);
  if (made->non_blocking())
    stream_part::get().non_blocking.fetch_add(1);
  return made;
}

} // namespace

std::unique_ptr<stream> make_stream(context& in, unsigned flags, int priority) {
  auto non_blocking = (flags & CU_STREAM_NON_BLOCKING) != 0;
  auto made = new_stream(in, flags, priority, non_blocking ? 1 : 0);
  streams_of(made->owner).add(*made);
  return made;
}

std::unique_ptr<stream> make_hidden_stream(context& in) {
  return new_stream(in, CU_STREAM_NON_BLOCKING, 0, call::stream_create::apart);
}

std::unique_ptr<event> make_event(context& in, unsigned flags) {
  auto made = std::make_unique<event>(in, event_id{next_id()}, flags);
  here().send(call::event_create{{made->wire}, made->timed() ? 1U : 0U},
              in.device_index());
  return made;
}

CUresult import_event(context& in, const share_name& what, std::uint32_t host,
                      std::unique_ptr<event>& out) {
  auto made =
      std::make_unique<event>(in, event_id{next_id()}, CU_EVENT_DISABLE_TIMING);
  // A device queries the event through a stream of its own.
  auto got = host_calls().append_alone([&] {
    return here().ask(call::event_import{{made->wire}, what, host},
                      in.device_index());
  });
  if (got.result != CUDA_SUCCESS)
    return got.result;
  made->shared.store(true);
  out = std::move(made);
  return CUDA_SUCCESS;
}

void retire_stream(stream& x) {
  streams_of(x.owner).remove(x);
  retire_hidden_stream(x);
}

void retire_hidden_stream(stream& x) {
  if (any_capture())
    stream_part::get().capture.forget_stream(x);
  {
    std::lock_guard guard{x.query.mutex};
    drop_query(x.query);
  }
  here().send(call::stream_destroy{{x.wire}}, x.device());
  stream_part::get().existing.fetch_sub(1);
  if (x.non_blocking())
    stream_part::get().non_blocking.fetch_sub(1);
}

void retire_event(event& x) {
  if (any_capture())
    stream_part::get().capture.forget_event(x);
  {
    std::lock_guard guard{x.query.mutex};
    drop_query(x.query);
  }
  here().send(call::event_destroy{{x.wire}}, x.device());
}

CUresult synchronise(stream& x) {
  auto& s = here();
  session_part::get().at_wait.run();
  if (is_done(x)) {
    session_part::get().after_wait.run();
    s.deliver_console();
    return s.sticky();
  }
  // The legacy stream waits for all blocking streams. Where all streams are
  // blocking streams, waiting for the device establishes more.
  if (x.is_legacy() && stream_part::get().non_blocking.load() == 0)
    return s.synchronise(x.device());
  session_part::get().before_wait.run();
  auto asked = s.begin(call::stream_sync{{x.wire}}, x.device());
  auto got = s.finish(asked);
  session_part::get().after_wait.run();
  s.deliver_console();
  if (got.result != CUDA_SUCCESS)
    return got.result;
  learn_done(x, asked.call.value);
  if (x.is_legacy())
    streams_of(x.owner).learn_done(asked.call.value);
  return CUDA_SUCCESS;
}

CUresult finish_work(stream& x) {
  // The legacy stream's own work comes before that of a blocking stream.
  auto& legacy = *x.owner.legacy;
  if (!x.non_blocking() && !x.is_legacy() &&
      !is_done(legacy, legacy.last_work.load(std::memory_order_acquire)))
    if (auto code = synchronise(legacy); code != CUDA_SUCCESS)
      return code;
  return is_done(x, x.last_seen()) ? here().sticky() : synchronise(x);
}

bool is_idle(const stream& x) noexcept {
  const auto& legacy = *x.owner.legacy;
  return is_done(x) &&
         (x.non_blocking() ||
          is_done(legacy, legacy.last_work.load(std::memory_order_acquire)));
}

CUresult query(stream& x) {
  return poll_or_ask(
      x, [&] { return here().begin(call::stream_sync{{x.wire}}, x.device()); });
}

CUresult record(event& x, stream& in) {
  if (&x.owner != &in.owner)
    return CUDA_ERROR_INVALID_HANDLE;
  auto call = here().send(call::event_record{{x.wire}, {in.wire}}, x.device());
  in.worked(call);
  x.behind.store(in.behind.load(std::memory_order_relaxed),
                 std::memory_order_relaxed);
  if (x.shared.load())
    (void)ask_worker(x);
  std::lock_guard guard{x.query.mutex};
  drop_query(x.query);
  // Where two threads record it at once, the later record in the log counts.
  if (x.recorded.load() <= call.value) {
    x.recorded_in = in.done_until;
    x.recorded.store(call.value + 1, std::memory_order_release);
  }
  return CUDA_SUCCESS;
}

namespace {

call_number send_wait(const stream& in, const event& x) {
  if (x.device() == in.device())
    return here().send(call::stream_wait{{in.wire}, {x.wire}}, in.device());
  return here().send(call::peer_wait{{in.wire}, x.wire.value, x.device()},
                     in.device());
}

} // namespace

CUresult wait(stream& in, event& x) {
  if (x.shared.load()) {
    in.worked(send_wait(in, x));
    // The wait is for the latest record as of now, not for one that another
    // process makes after this call.
    auto now = ask_worker(x);
    return now == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : now;
  }
  if (x.recorded.load() != 0) {
    in.wait_behind(x.behind.load(std::memory_order_relaxed));
    in.worked(send_wait(in, x));
  }
  return CUDA_SUCCESS;
}

CUresult synchronise(event& x) {
  auto& s = here();
  session_part::get().at_wait.run();
  if (!x.shared.load()) {
    std::unique_lock guard{x.query.mutex};
    if (is_done(x)) {
      guard.unlock();
      session_part::get().after_wait.run();
      s.deliver_console();
      return s.sticky();
    }
  }
  session_part::get().before_wait.run();
  auto asked = s.begin(call::event_sync{{x.wire}}, x.device());
  auto got = s.finish(asked);
  session_part::get().after_wait.run();
  s.deliver_console();
  if (got.result == CUDA_SUCCESS) {
    std::lock_guard guard{x.query.mutex};
    learn_done(x, asked.call.value);
  }
  return got.result;
}

CUresult query(event& x) {
  if (x.shared.load())
    return ask_worker(x);
  return poll_or_ask(
      x, [&] { return here().begin(call::event_sync{{x.wire}}, x.device()); });
}

CUresult elapsed(event& from, event& to, float& milliseconds) {
  if (from.recorded.load() == 0 || to.recorded.load() == 0 || !from.timed() ||
      !to.timed() || &from.owner != &to.owner)
    return CUDA_ERROR_INVALID_HANDLE;
  if (is_awaited(from) || is_awaited(to))
    return CUDA_ERROR_NOT_READY;
  // Otherwise the worker decides. Most programs know that both are done, and a
  // query of each event would cost as much again.
  auto got = here().ask(call::elapsed{{from.wire}, {to.wire}}, from.device());
  if (got.result == CUDA_SUCCESS)
    milliseconds = std::bit_cast<float>(static_cast<std::uint32_t>(got.value));
  return got.result;
}

} // namespace vgpu::interposer
