#include "devices/nvidia/profiler/gpu_activities.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace vgpu::device::nvidia {

namespace {

/// CUPTI returns no buffer in which a record is incomplete, so small ones come
/// back sooner.
constexpr std::size_t buffer_bytes = std::size_t{128} << 10;
constexpr std::size_t most_free_buffers = 16;
/// Is the shortest time between two collections while work is under way, which
/// may bring nothing.
constexpr auto pause = std::chrono::milliseconds{1};
/// A record that does not come in this time, since it was asked for, is not
/// waited for.
constexpr auto overdue = std::chrono::seconds{1};

/// Holds the piece that this thread enqueues.
thread_local gpu_activities::piece_ref enqueued;

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          gpu_activities::clock::now().time_since_epoch())
          .count());
}

gpu_activities::clock::time_point time_of(std::uint64_t ns) noexcept {
  return gpu_activities::clock::time_point{
      std::chrono::duration_cast<gpu_activities::clock::duration>(
          std::chrono::nanoseconds{ns})};
}

fault refuses(const cupti_library& by, const char* what, activity::code why) {
  return {fault_kind::unsupported, "CUPTI " + by.path + ": " + what +
                                       " returned " + std::to_string(why)};
}

} // namespace

gpu_activities& gpu_activities::instance() {
  // CUPTI's threads may call back until the process has ended.
  static auto& x = *new gpu_activities;
  return x;
}

cupti_ptr gpu_activities::library() {
  std::lock_guard guard{mutex_};
  return library_;
}

// -- on and off ---------------------------------------------------------------

status gpu_activities::start(int driver_version) {
  std::lock_guard switching{switching_};
  if (users_ != 0) {
    ++users_;
    return {};
  }
  auto places = cupti_places(driver_version);
  status out = fault{fault_kind::unsupported,
                     "there is no CUPTI on this host; VGPU_NVIDIA_CUPTI names "
                     "it where it lies elsewhere"};
  for (const auto& place : places) {
    auto opened = open_cupti(place);
    out = opened ? use(*opened) : status{opened.why()};
    if (out) {
      users_ = 1;
      recording_ = true;
      return out;
    }
  }
  return out;
}

/// Makes CUPTI record, with this library. Another one that was in use before is
/// left.
status gpu_activities::use(const cupti_ptr& by) {
  auto former = library();
  auto is_same = former && former->path == by->path;
  if (former && !is_same && subscriber_ != nullptr)
    detach(*former);
  {
    std::lock_guard guard{mutex_};
    if (!is_same)
      library_ = by;
  }
  auto ok = attach(*by);
  if (!ok)
    detach(*by);
  return ok;
}

status gpu_activities::attach(const cupti_library& by) {
  if (subscriber_ == nullptr) {
    if (auto x = by.cuptiSubscribe(&subscriber_, &call_told, this);
        x != activity::success) {
      subscriber_ = nullptr;
      return refuses(by, "cuptiSubscribe", x);
    }
    if (auto x = by.cuptiActivityRegisterTimestampCallback(&now_ns);
        x != activity::success)
      return refuses(by, "cuptiActivityRegisterTimestampCallback", x);
    if (auto x = by.cuptiActivityRegisterCallbacks(&buffer_requested,
                                                   &buffer_completed);
        x != activity::success)
      return refuses(by, "cuptiActivityRegisterCallbacks", x);
  }
  for (auto x : activity::kinds)
    if (auto code = is_on_ ? activity::success : by.cuptiActivityEnable(x);
        code != activity::success)
      return refuses(by, "cuptiActivityEnable", code);
  is_on_ = true;
  watch_calls(by, true);
  return {};
}

void gpu_activities::detach(const cupti_library& by) {
  if (subscriber_ == nullptr)
    return;
  for (auto x : activity::kinds)
    (void)by.cuptiActivityDisable(x);
  is_on_ = false;
  (void)by.cuptiUnsubscribe(std::exchange(subscriber_, nullptr));
}

/// A call that this CUPTI does not know cannot be watched. Its work then has
/// the events' times.
void gpu_activities::watch_calls(const cupti_library& by, bool on) {
  for (auto x : activity::calls)
    (void)by.cuptiEnableCallback(on ? 1 : 0, subscriber_,
                                 activity::driver_calls, x);
}

void gpu_activities::stop() {
  {
    std::lock_guard switching{switching_};
    if (users_ == 0 || --users_ != 0)
      return;
    recording_ = false;
    watch_calls(*library(), false);
  }
  rest_if_idle();
}

/// Leaves CUPTI when the last piece is told. Then it costs nothing, and another
/// tool can use it.
void gpu_activities::rest_if_idle() {
  if (recording_) [[likely]]
    return;
  std::lock_guard switching{switching_};
  {
    std::lock_guard guard{mutex_};
    if (users_ != 0 || !is_on_ || open_ != 0 || !waiting_.empty())
      return;
  }
  detach(*library());
}

// -- pieces -------------------------------------------------------------------

gpu_activities::piece_ref gpu_activities::begin() {
  if (!recording_)
    return nullptr;
  auto out = std::make_shared<piece>();
  std::lock_guard guard{mutex_};
  ++open_;
  ++begun_;
  return enqueued = std::move(out);
}

void gpu_activities::end() noexcept {
  enqueued.reset();
}

void gpu_activities::finish(const piece_ref& what, times by_events,
                            std::shared_ptr<work_span> of) {
  {
    std::lock_guard guard{mutex_};
    --open_;
    what->ended = {by_events, std::move(of), ++numbers_};
    if (!what->missing.empty()) {
      waiting_.insert(what);
      return;
    }
  }
  tell({what});
}

void gpu_activities::abandon(const piece_ref& what) {
  if (!what)
    return;
  std::lock_guard guard{mutex_};
  --open_;
  forget(*what);
}

/// Waits for none of the piece's records. Precondition: the lock is held.
void gpu_activities::forget(piece& x) {
  for (auto correlation : std::exchange(x.missing, {}))
    awaited_.erase(correlation);
}

/// Tells the spans when the pieces were executed: by CUPTI where it recorded
/// all of a piece.
void gpu_activities::tell(const ready& all) {
  for (const auto& x : all) {
    auto exact = x->exact && !x->lacks_times;
    auto when = exact ? *x->exact : x->ended->by_events;
    x->ended->of->began(when.began);
    x->ended->of->ended(when.ended);
  }
}

// -- what CUPTI calls ---------------------------------------------------------

void gpu_activities::call_told(void* user, std::uint32_t, std::uint32_t,
                               const activity::call_data* data) noexcept {
  if (!enqueued)
    return;
  auto& self = *static_cast<gpu_activities*>(user);
  try {
    if (data->site == 0)
      self.expect(enqueued, data->correlation);
    else if (data->outcome != nullptr &&
             *static_cast<const CUresult*>(data->outcome) != CUDA_SUCCESS)
      self.expect_no(enqueued, data->correlation);
  } catch (const std::bad_alloc&) {
    enqueued->lacks_times = true;
  }
}

void gpu_activities::expect(const piece_ref& what, std::uint32_t correlation) {
  std::lock_guard guard{mutex_};
  awaited_[correlation] = what;
  what->missing.insert(correlation);
}

/// A call that failed enqueued nothing.
void gpu_activities::expect_no(const piece_ref& what,
                               std::uint32_t correlation) {
  std::lock_guard guard{mutex_};
  awaited_.erase(correlation);
  what->missing.erase(correlation);
}

/// Without a buffer CUPTI drops records.
void gpu_activities::buffer_requested(std::uint8_t** buffer, std::size_t* bytes,
                                      std::size_t* most) noexcept {
  auto& self = instance();
  *buffer = nullptr;
  *bytes = 0;
  *most = 0; // as many as fit
  {
    std::lock_guard guard{self.mutex_};
    if (!self.buffers_.empty()) {
      *buffer = self.buffers_.back().release();
      self.buffers_.pop_back();
    }
  }
  if (*buffer == nullptr)
    *buffer = new (std::nothrow) std::uint8_t[buffer_bytes];
  if (*buffer != nullptr)
    *bytes = buffer_bytes;
}

void gpu_activities::buffer_completed(CUcontext, std::uint32_t,
                                      std::uint8_t* buffer, std::size_t,
                                      std::size_t valid) noexcept {
  auto& self = instance();
  std::unique_ptr<std::uint8_t[]> owned{buffer};
  if (buffer == nullptr)
    return;
  try {
    if (valid != 0)
      self.read(buffer, valid);
    std::lock_guard guard{self.mutex_};
    if (self.buffers_.size() < most_free_buffers)
      self.buffers_.push_back(std::move(owned));
  } catch (const std::exception&) {
    // The pieces of the lost records have the events' times.
  }
}

void gpu_activities::read(std::uint8_t* buffer, std::size_t valid) {
  ready done;
  auto by = library();
  for (void* at = nullptr;
       by->cuptiActivityGetNextRecord(buffer, valid, &at) == activity::success;)
    if (auto x = activity::read_record(at); x)
      note(*x, done);
  tell(done);
}

void gpu_activities::note(const activity::record& x, ready& to) {
  std::lock_guard guard{mutex_};
  auto found = awaited_.extract(x.correlation);
  if (found.empty())
    return;
  auto of = std::move(found.mapped());
  of->missing.erase(x.correlation);
  if (!x.has_times())
    of->lacks_times = true;
  times here{time_of(x.began), time_of(x.ended)};
  if (of->exact)
    here = {std::min(of->exact->began, here.began),
            std::max(of->exact->ended, here.ended)};
  of->exact = here;
  if (of->missing.empty() && of->ended) {
    waiting_.erase(of);
    to.push_back(std::move(of));
  }
}

// -- collecting ---------------------------------------------------------------

/// Tells whether a piece still waits whose number is at most this.
bool gpu_activities::waits_for(std::uint64_t until) {
  std::lock_guard guard{mutex_};
  return std::ranges::any_of(
      waiting_, [until](auto& x) { return x->ended->number <= until; });
}

void gpu_activities::collect(clock::time_point now) {
  collect_records(now);
  rest_if_idle();
}

void gpu_activities::collect_records(clock::time_point now) {
  std::uint64_t begun = 0, until = 0;
  bool is_quiet = false;
  std::lock_guard collecting{collecting_};
  {
    std::lock_guard guard{mutex_};
    if (waiting_.empty() ||
        (open_ != 0 && now >= collected_ && now - collected_ < pause))
      return;
    collected_ = now;
    is_quiet = open_ == 0;
    begun = begun_;
    until = numbers_;
  }
  auto by = library();
  (void)by->cuptiActivityFlushAll(0);
  // Where nothing is under way, nothing that is incomplete can be lost.
  if (is_quiet && waits_for(until))
    (void)by->cuptiActivityFlushAll(activity::forced);
  ready late;
  {
    std::lock_guard guard{mutex_};
    // Work that began meanwhile may have held a buffer back.
    is_quiet = is_quiet && begun == begun_;
    std::erase_if(waiting_, [&](auto& x) {
      auto gives_up = (is_quiet && x->ended->number <= until) ||
                      (x->ended->missed && now - *x->ended->missed >= overdue);
      if (!x->ended->missed)
        x->ended->missed = now;
      if (gives_up) {
        x->lacks_times = true;
        forget(*x);
        late.push_back(x);
      }
      return gives_up;
    });
  }
  tell(late);
}

} // namespace vgpu::device::nvidia
