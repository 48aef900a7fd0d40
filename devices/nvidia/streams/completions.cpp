#include "devices/nvidia/streams/completions.hpp"

#include <sys/prctl.h>

#include <algorithm>

namespace vgpu::device::nvidia {

namespace {

using namespace std::chrono_literals;

/// Polling for this long costs about as much as one wake-up.
constexpr auto spin = 100us;
/// A caller polls for about as long as handing over to another thread takes.
constexpr busy_poll_limits spin_limits{.longest = 10us, .contested = 0us};
/// Sleeping prolongs a wait by at most this fraction of it, and longest_rest.
constexpr auto rest_part = 16;
/// One of this many rounds of polling asks the driver for errors.
constexpr unsigned polls_per_error_check = 64;
constexpr std::chrono::nanoseconds longest_rest = 500us;

} // namespace

// -- events -------------------------------------------------------------------

event_pool::event_pool(driver_ptr api) : api_(std::move(api)) {}

result<event_ref> event_pool::take(bool timing) {
  CUevent raw = nullptr;
  {
    std::lock_guard guard{free_->mutex};
    auto& free = free_->of[timing];
    if (!free.empty()) {
      raw = free.back();
      free.pop_back();
    }
  }
  if (raw == nullptr) {
    auto flags = timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    if (auto code = api_->cuEventCreate(&raw, static_cast<unsigned>(flags));
        code != CUDA_SUCCESS)
      return api_->failed(code, "cuEventCreate");
  }
  return event_ref{raw, [to = free_, timing](CUevent x) {
                     std::lock_guard guard{to->mutex};
                     to->of[timing].push_back(x);
                   }};
}

void lane::raise(std::uint64_t number) noexcept {
  for (auto now = done.load(std::memory_order_relaxed); now < number;)
    if (done.compare_exchange_weak(now, number, std::memory_order_release,
                                   std::memory_order_relaxed))
      break;
}

// -- waiting ------------------------------------------------------------------

completions::completions(driver_ptr api, CUcontext context, hooks with)
    : api_(std::move(api)), context_(context), hooks_(std::move(with)),
      spins_(spin_limits), thread_([this] { run(); }) {}

completions::~completions() {
  stopping_ = true;
  changed(true);
  thread_.join();
  for (auto& x : lanes_)
    for (auto& entry : x->waiting)
      entry.tell(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

void completions::add(const std::shared_ptr<lane>& in, lane::entry what,
                      completion_mode mode) {
  what.cleanup = mode == completion_mode::cleanup;
  // Entries that already wait go first.
  if (mode == completion_mode::spin_first && waiting_ == 0 && !frozen_) {
    what.spun_since = clock::now();
    if (spin_for(in, what))
      return;
  }
  std::unique_lock guard{mutex_};
  ++waiting_;
  what.added = ++added_;
  if (in->waiting.empty())
    lanes_.push_back(in);
  auto at = std::upper_bound(
      in->waiting.begin(), in->waiting.end(), what.number,
      [](std::uint64_t n, const lane::entry& x) { return n < x.number; });
  in->waiting.insert(at, std::move(what));
  version_.fetch_add(1, std::memory_order_release);
  auto sleeping = asleep_;
  guard.unlock();
  if (sleeping)
    wake_.notify_one();
}

/// Polls on the calling thread. Returns true when the work is done and its
/// completion has run.
bool completions::spin_for(const std::shared_ptr<lane>& in,
                           const lane::entry& what) {
  auto outcome = CUDA_ERROR_NOT_READY;
  auto found = [&] {
    outcome = outcome_of({in, what.end, what.number});
    return outcome != CUDA_ERROR_NOT_READY;
  };
  if (!spins_.wait_for(*what.spun_since, found))
    return false;
  hooks_.settled(what.end.event.get(), outcome);
  in->raise(what.number);
  what.tell(outcome);
  hooks_.told();
  return true;
}

void completions::changed(bool must_wake) {
  {
    std::lock_guard guard{mutex_};
    version_.fetch_add(1, std::memory_order_release);
    must_wake = must_wake || asleep_;
  }
  if (must_wake)
    wake_.notify_one();
}

void completions::fail(CUresult why) {
  failed_ = static_cast<std::uint32_t>(why);
  changed(true);
}

void completions::freeze() {
  frozen_ = true;
  changed(true);
}

void completions::run() {
  (void)api_->cuCtxSetCurrent(context_);
  // Sleeps must not be rounded up.
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  std::vector<head> heads;
  std::uint64_t version = 0;
  auto since = clock::now();
  unsigned polls = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (outdated(version)) {
      collect(heads, version);
      since = clock::now();
    }
    if (settle_first(heads)) {
      collect(heads, version);
      since = clock::now();
    } else {
      auto slept = rest(heads.empty(), since, version);
      if (!heads.empty() && (slept || ++polls % polls_per_error_check == 0))
        check_for_errors();
    }
  }
}

bool completions::outdated(std::uint64_t version) const noexcept {
  return version_.load(std::memory_order_acquire) != version;
}

void completions::collect(std::vector<head>& into, std::uint64_t& version) {
  into.clear();
  std::lock_guard guard{mutex_};
  version = version_.load(std::memory_order_relaxed);
  if (frozen_)
    return;
  std::erase_if(lanes_, [](auto& x) { return x->waiting.empty(); });
  for (auto& x : lanes_) {
    auto& first = x->waiting.front();
    into.push_back({x, first.end, first.number, first.added});
  }
  std::ranges::sort(into, std::ranges::greater{}, [](auto& x) {
    return std::pair{x.number, x.added};
  });
}

/// Takes out the next entry whose work is done by `x`, if there is one. Another
/// thread may have added an entry of an earlier number meanwhile.
std::optional<lane::entry> completions::take_done(const head& x) {
  std::lock_guard guard{mutex_};
  auto& waiting = x.of->waiting;
  telling_ = nobody;
  all_reported_.notify_all();
  if (waiting.empty() || waiting.front().number > x.number)
    return std::nullopt;
  auto out = std::move(waiting.front());
  waiting.pop_front();
  if (!out.cleanup)
    telling_ = out.number;
  return out;
}

CUresult completions::outcome_of(const head& x) const {
  if (auto failed = failed_.load(); failed != 0)
    return static_cast<CUresult>(failed);
  if (x.end.event)
    return api_->cuEventQuery(x.end.event.get());
  return x.of->has_written(x.end.value) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

void completions::wait_told(std::uint64_t number) {
  if (waiting_ == 0 || std::this_thread::get_id() == thread_.get_id())
    return;
  std::unique_lock guard{mutex_};
  while (!frozen_ && !stopping_ && owes(number)) {
    version_.fetch_add(1, std::memory_order_release);
    if (asleep_)
      wake_.notify_one();
    all_reported_.wait_for(guard, longest_rest);
  }
}

/// Tells whether a completion is due, for work up to this number, that has not
/// run. The caller holds the lock.
bool completions::owes(std::uint64_t number) const {
  auto owed_in = [&](auto& in) {
    for (auto& x : in->waiting) {
      if (x.number > number ||
          outcome_of({in, x.end, x.number}) == CUDA_ERROR_NOT_READY)
        return false;
      if (!x.cleanup)
        return true;
    }
    return false;
  };
  return telling_ <= number || std::ranges::any_of(lanes_, owed_in);
}

/// Settles the earliest work that is done. It examines the latest work first.
/// When that work is done, all work that it waited for is done too, so the loop
/// then finds that earlier work and settles it first.
bool completions::settle_first(const std::vector<head>& heads) {
  const head* first = nullptr;
  auto how = CUDA_ERROR_NOT_READY;
  for (auto& x : heads)
    if (auto outcome = outcome_of(x); outcome != CUDA_ERROR_NOT_READY) {
      first = &x;
      how = outcome;
    }
  if (first != nullptr)
    settle(*first, how);
  return first != nullptr;
}

void completions::settle(const head& x, CUresult outcome) {
  hooks_.settled(x.end.event.get(), outcome);
  x.of->raise(x.number);
  while (auto entry = take_done(x)) {
    entry->tell(outcome);
    --waiting_;
    if (entry->spun_since)
      spins_.learned(clock::now() - *entry->spun_since);
  }
  hooks_.told();
}

/// Looks for an error in the driver, because work that an error ended writes no
/// word.
void completions::check_for_errors() {
  auto state = api_->cuStreamQuery(CU_STREAM_LEGACY);
  if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY)
    return;
  std::uint32_t none = 0;
  failed_.compare_exchange_strong(none, static_cast<std::uint32_t>(state));
}

/// Polls or sleeps, depending on how long the wait has lasted. Tells whether it
/// slept.
bool completions::rest(bool nothing, clock::time_point since,
                       std::uint64_t version) {
  auto waited = clock::now() - since;
  if (waited < spin) {
    for (int i = 0; i < 16 && !outdated(version); ++i)
      __builtin_ia32_pause();
    return false;
  }
  std::unique_lock guard{mutex_};
  if (outdated(version) || stopping_)
    return false;
  asleep_ = true;
  if (nothing)
    wake_.wait(guard);
  else
    wake_.wait_for(guard, std::min(longest_rest, waited / rest_part));
  asleep_ = false;
  return true;
}

} // namespace vgpu::device::nvidia
