#include "devices/nvidia/streams/streams.hpp"

#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::device::nvidia {

namespace {

template <class Id>
fault unknown(const char* kind, Id id) {
  return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                    std::string{kind} + " " + std::to_string(id.value) +
                        " does not exist on this device");
}

} // namespace

streams::streams(driver_ptr api, completions& waits, timeline& times,
                 std::function<bool()> with_events)
    : api_(api), waits_(waits), times_(times),
      with_events_(std::move(with_events)), pool_(api), words_(api) {}

status streams::open() {
  auto legacy = fresh_stream(CU_STREAM_LEGACY, true);
  if (!legacy)
    return legacy.why();
  legacy_ = &(streams_[legacy_stream] = std::move(*legacy));
  return {};
}

result<streams::stream> streams::fresh_stream(CUstream handle, bool blocking) {
  auto word = words_.take();
  if (!word)
    return word.why();
  stream out;
  out.handle = handle;
  out.blocking = blocking;
  out.marks = (*word)->value.load();
  out.in = std::make_shared<lane>(std::move(*word));
  return out;
}

streams::stream* streams::find(stream_id id) {
  auto i = streams_.find(id);
  return i == streams_.end() ? nullptr : &i->second;
}

streams::event* streams::find(event_id id) {
  auto i = events_.find(id);
  return i == events_.end() ? nullptr : &i->second;
}

/// Numbers new work. A wait for the legacy stream also waits for blocking
/// streams.
void streams::worked(stream& x) {
  x.last = ++number_;
  if (x.blocking)
    legacy_->after = number_;
}

/// Marks the end of all of the stream's work so far. In the legacy stream,
/// where it synchronises with others, an event costs less than a word.
result<lane::mark> streams::mark(stream& x) {
  times_.end(x.timed, x.handle);
  auto orders_others = &x == legacy_ && blocking_ != 0;
  if (!orders_others && !with_events_()) {
    auto value = ++x.marks;
    if (auto code =
            api_->cuStreamWriteValue32(x.handle, x.in->word->address(), value,
                                       CU_STREAM_WRITE_VALUE_DEFAULT);
        code != CUDA_SUCCESS)
      return api_->failed(code, "cuStreamWriteValue32");
    return lane::mark{nullptr, value};
  }
  auto taken = pool_.take(false);
  if (!taken)
    return taken.why();
  if (auto code = api_->cuEventRecord(taken->get(), x.handle);
      code != CUDA_SUCCESS)
    return api_->failed(code, "cuEventRecord");
  return lane::mark{std::move(*taken), 0};
}

// -- streams ------------------------------------------------------------------

status streams::create(stream_id id, bool non_blocking, int priority) {
  CUstream handle = nullptr;
  auto flags = non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  auto code = api_->cuStreamCreateWithPriority(
      &handle, static_cast<unsigned>(flags), priority);
  if (code != CUDA_SUCCESS)
    return api_->failed(code, "cuStreamCreateWithPriority");
  auto made = fresh_stream(handle, !non_blocking);
  if (!made)
    return made.why();
  streams_.emplace(id, std::move(*made));
  blocking_ += !non_blocking;
  return {};
}

status streams::destroy(stream_id id) {
  auto* x = find(id);
  if (x == nullptr || x == legacy_)
    return unknown("stream", id);
  std::erase_if(leaving_, [](auto& e) { return e.in->done >= e.number; });
  if (x->in->done < x->last)
    if (auto end = mark(*x); end)
      leaving_.push_back({x->in, *end, x->last});
  times_.end(x->timed, x->handle);
  auto code = api_->cuStreamDestroy(x->handle);
  blocking_ -= x->blocking;
  streams_.erase(id);
  return api_->check(code, "cuStreamDestroy");
}

result<CUstream> streams::work_in(stream_id id) {
  auto* x = find(id);
  if (x == nullptr)
    return unknown("stream", id);
  worked(*x);
  times_.begin(x->timed, x->handle);
  return x->handle;
}

result<CUstream> streams::handle_of(stream_id id) {
  auto* x = find(id);
  if (x == nullptr)
    return unknown("stream", id);
  return x->handle;
}

void streams::pause(stream_id id) {
  if (auto* x = find(id); x != nullptr)
    times_.end(x->timed, x->handle);
}

/// Notes that unmarked work is done. The next work then starts a new span.
void streams::known_done(stream& x, std::uint64_t until) {
  x.in->raise(until);
  if (until >= x.last)
    times_.end(x.timed, x.handle);
}

std::uint64_t streams::last_of(const stream& x) const noexcept {
  return &x == legacy_ ? std::max(x.last, x.after) : x.last;
}

/// Tells whether work is known to be done. If so, it first waits until the
/// completions of that and of earlier work have run, because one of them may
/// send the program the result.
bool streams::is_done(const lane& in, std::uint64_t until) {
  if (in.done < until)
    return false;
  waits_.wait_told(until);
  return true;
}

bool streams::idle(stream_id id) {
  auto* x = find(id);
  if (x == nullptr)
    return true;
  auto last = last_of(*x);
  if (x->in->done < last) {
    if (api_->cuStreamQuery(x->handle) != CUDA_SUCCESS)
      return false;
    known_done(*x, last);
  }
  return is_done(*x->in, last);
}

void streams::wait_for(stream& x, std::uint64_t until, completion tell,
                       completion_mode mode) {
  auto end = mark(x);
  if (!end)
    return tell(cuda_code(end.why()));
  waits_.add(x.in, {until, *end, std::move(tell)}, mode);
}

void streams::when_done(stream_id id, CUresult so_far, completion tell,
                        completion_mode mode) {
  auto* x = find(id);
  if (x == nullptr)
    return tell(CUDA_ERROR_INVALID_HANDLE);
  auto last = last_of(*x);
  if (is_done(*x->in, last))
    return tell(so_far);
  wait_for(*x, last, std::move(tell), mode);
}

void streams::when_all_done(CUresult so_far, completion tell,
                            completion_mode mode) {
  struct group {
    std::atomic<std::size_t> missing{1};
    std::atomic<std::uint32_t> outcome{0};
    completion tell;

    void one(CUresult x) {
      if (x != CUDA_SUCCESS)
        outcome = static_cast<std::uint32_t>(x);
      if (missing.fetch_sub(1) == 1)
        tell(static_cast<CUresult>(outcome.load()));
    }
  };
  auto works = [](auto& x) { return x.second.in->done < x.second.last; };
  if (mode == completion_mode::spin_first &&
      std::ranges::count_if(streams_, works) > 1)
    mode = completion_mode::polled;
  auto all = std::make_shared<group>();
  all->tell = std::move(tell);
  for (auto& entry : streams_)
    if (works(entry)) {
      ++all->missing;
      auto& x = entry.second;
      wait_for(
          x, x.last, [all](CUresult outcome) { all->one(outcome); }, mode);
    }
  for (auto& x : leaving_)
    if (x.in->done < x.number) {
      ++all->missing;
      waits_.add(
          x.in,
          {x.number, x.end, [all](CUresult outcome) { all->one(outcome); }},
          mode);
    }
  if (mode != completion_mode::cleanup)
    waits_.wait_told(number_); // for streams that are done already
  all->one(so_far);
}

// -- events -------------------------------------------------------------------

status streams::create_event(event_id id, bool timing) {
  auto taken = pool_.take(timing);
  if (!taken)
    return taken.why();
  events_[id] = {timing, std::move(*taken), {}, nullptr, 0, nullptr};
  return {};
}

status streams::destroy_event(event_id id) {
  if (events_.erase(id) == 0)
    return unknown("event", id);
  return {};
}

status streams::record(event_id id, stream_id in) {
  auto* e = find(id);
  auto* x = find(in);
  if (e == nullptr)
    return unknown("event", id);
  if (x == nullptr)
    return unknown("stream", in);
  // A wait for the former record must not wait for this one. Only the driver
  // waits for records of a shared event, and it distinguishes the records.
  if (!e->watch && e->handle.use_count() > 1) {
    auto taken = pool_.take(e->timing);
    if (!taken)
      return taken.why();
    e->handle = std::move(*taken);
  }
  if (auto code = api_->cuEventRecord(e->handle.get(), x->handle);
      code != CUDA_SUCCESS)
    return api_->failed(code, "cuEventRecord");
  worked(*x);
  e->of = in;
  e->in = x->in;
  e->number = number_;
  return {};
}

status streams::wait(stream_id in, event_id id) {
  auto* e = find(id);
  auto* x = find(in);
  if (e == nullptr)
    return unknown("event", id);
  if (x == nullptr)
    return unknown("stream", in);
  if (!e->watch && (!e->in || e->in->done >= e->number))
    return {};
  // Another process may record the event much later.
  if (e->watch)
    times_.end(x->timed, x->handle);
  worked(*x);
  return api_->check(api_->cuStreamWaitEvent(x->handle, e->handle.get(), 0),
                     "cuStreamWaitEvent");
}

status streams::wait(stream_id in, const awaited_value& what) {
  auto* x = find(in);
  if (x == nullptr)
    return unknown("stream", in);
  times_.end(x->timed, x->handle);
  worked(*x);
  auto how = static_cast<unsigned>(what.test);
  if (what.bytes == 8)
    return api_->check(
        api_->cuStreamWaitValue64(x->handle, what.address, what.value, how),
        "cuStreamWaitValue64");
  return api_->check(
      api_->cuStreamWaitValue32(x->handle, what.address,
                                static_cast<cuuint32_t>(what.value), how),
      "cuStreamWaitValue32");
}

result<bool> streams::query(event_id id) {
  auto* e = find(id);
  if (e == nullptr)
    return unknown("event", id);
  if (!e->watch && (!e->in || is_done(*e->in, e->number)))
    return true;
  auto code = api_->cuEventQuery(e->handle.get());
  if (code == CUDA_ERROR_NOT_READY)
    return false;
  if (code != CUDA_SUCCESS)
    return api_->failed(code, "cuEventQuery");
  if (auto* x = find(e->of); !e->watch && x != nullptr && x->in == e->in)
    known_done(*x, e->number);
  else if (!e->watch)
    e->in->raise(e->number);
  waits_.wait_told(e->number);
  return true;
}

result<float> streams::elapsed(event_id from, event_id to) {
  auto* a = find(from);
  auto* b = find(to);
  if (a == nullptr || b == nullptr)
    return unknown("event", a == nullptr ? from : to);
  auto out = 0.0f;
  if (auto code =
          api_->cuEventElapsedTime(&out, a->handle.get(), b->handle.get());
      code != CUDA_SUCCESS)
    return api_->failed(code, "cuEventElapsedTime");
  return out;
}

void streams::when_recorded(event_id id, CUresult so_far, completion tell) {
  auto* e = find(id);
  if (e == nullptr)
    return tell(CUDA_ERROR_INVALID_HANDLE);
  if (e->watch) {
    auto& own = *e->watch;
    own.last = ++number_;
    if (auto code = api_->cuStreamWaitEvent(own.handle, e->handle.get(), 0);
        code != CUDA_SUCCESS)
      return tell(code);
    return wait_for(own, own.last, std::move(tell),
                    completion_mode::spin_first);
  }
  if (!e->in || is_done(*e->in, e->number))
    return tell(so_far);
  // Where no work came after the record, a mark at the stream's end says the
  // same and is quicker.
  if (auto* x = find(e->of); x != nullptr && x->last == e->number)
    return wait_for(*x, e->number, std::move(tell),
                    completion_mode::spin_first);
  waits_.add(e->in, {e->number, {e->handle, 0}, std::move(tell)},
             completion_mode::spin_first);
}

// -- events of several processes ----------------------------------------------

result<std::shared_ptr<streams::stream>> streams::make_watch() {
  CUstream handle = nullptr;
  if (auto code =
          api_->cuStreamCreateWithPriority(&handle, CU_STREAM_NON_BLOCKING, 0);
      code != CUDA_SUCCESS)
    return api_->failed(code, "cuStreamCreateWithPriority");
  auto made = fresh_stream(handle, false);
  if (!made) {
    (void)api_->cuStreamDestroy(handle);
    return made.why();
  }
  return std::shared_ptr<stream>{new stream(std::move(*made)),
                                 [api = api_](stream* x) {
                                   (void)api->cuStreamDestroy(x->handle);
                                   delete x;
                                 }};
}

/// The driver has to know at an event's creation that it will be shared, and
/// most events are not. So a new event replaces this one, and is recorded after
/// the present record if that is not done.
result<shared_object> streams::share(event_id id) {
  auto* e = find(id);
  if (e == nullptr)
    return unknown("event", id);
  if (e->timing)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "event " + std::to_string(id.value) +
                          " has timing enabled and cannot be shared");
  if (!e->watch) {
    auto watch = make_watch();
    if (!watch)
      return watch.why();
    CUevent raw = nullptr;
    if (auto code = api_->cuEventCreate(&raw, CU_EVENT_INTERPROCESS |
                                                  CU_EVENT_DISABLE_TIMING);
        code != CUDA_SUCCESS)
      return api_->failed(code, "cuEventCreate for several processes");
    event_ref made{raw,
                   [api = api_](CUevent x) { (void)api->cuEventDestroy(x); }};
    if (e->in && e->in->done < e->number) {
      auto code = api_->cuStreamWaitEvent((*watch)->handle, e->handle.get(), 0);
      if (code == CUDA_SUCCESS)
        code = api_->cuEventRecord(raw, (*watch)->handle);
      if (code != CUDA_SUCCESS)
        return api_->failed(code, "cuEventRecord for several processes");
    }
    e->handle = std::move(made);
    e->watch = std::move(*watch);
  }
  CUipcEventHandle name{};
  if (auto code = api_->cuIpcGetEventHandle(&name, e->handle.get());
      code != CUDA_SUCCESS)
    return api_->failed(code, "cuIpcGetEventHandle");
  shared_object out;
  out.words.resize(sizeof(name) / sizeof(std::uint64_t));
  std::memcpy(out.words.data(), &name, sizeof(name));
  return out;
}

status streams::import(event_id id, const shared_object& from) {
  CUipcEventHandle name{};
  if (from.words.size() * sizeof(std::uint64_t) != sizeof(name) ||
      !from.descriptors.empty())
    return cuda_fault(
        CUDA_ERROR_INVALID_VALUE,
        "the shared object of the other process is not an event of a GPU");
  std::memcpy(&name, from.words.data(), sizeof(name));
  auto watch = make_watch();
  if (!watch)
    return watch.why();
  CUevent raw = nullptr;
  if (auto code = api_->cuIpcOpenEventHandle(&raw, name); code != CUDA_SUCCESS)
    return api_->failed(code, "cuIpcOpenEventHandle");
  event_ref made{raw,
                 [api = api_](CUevent x) { (void)api->cuEventDestroy(x); }};
  events_[id] = {false, std::move(made), {}, nullptr, 0, std::move(*watch)};
  return {};
}

// -- host functions -----------------------------------------------------------

status
streams::host_call(stream_id id,
                   std::function<void(std::function<void()> go_on)> start) {
  auto* x = find(id);
  if (x == nullptr)
    return unknown("stream", id);
  if (!x->gate) {
    auto gate = words_.take();
    if (!gate)
      return gate.why();
    x->gate = std::move(*gate);
    x->host_calls = x->gate->value.load();
  }
  auto turn = mark(*x);
  if (!turn)
    return turn.why();
  auto reached = number_;
  // The number comes after the mark, so the stream is not done before it
  // continues.
  worked(*x);
  auto value = ++x->host_calls;
  auto code = api_->cuStreamWaitValue32(x->handle, x->gate->address(), value,
                                        CU_STREAM_WAIT_VALUE_GEQ);
  if (code != CUDA_SUCCESS)
    return api_->failed(code, "cuStreamWaitValue32");
  ++*host_calls_;
  auto go_on = [gate = x->gate, value, pending = host_calls_] {
    gate->value.store(value, std::memory_order_release);
    --*pending;
  };
  waits_.add(x->in, {reached, *turn,
                     [start = std::move(start), go_on](CUresult outcome) {
                       if (outcome == CUDA_SUCCESS)
                         start(go_on);
                       else
                         go_on();
                     }});
  return {};
}

} // namespace vgpu::device::nvidia
