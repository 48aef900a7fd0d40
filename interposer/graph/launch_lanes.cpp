#include "interposer/graph/launch_lanes.hpp"

#include "interposer/session/own_thread.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/session/uncancelled.hpp"

#include <algorithm>
#include <chrono>

namespace vgpu::interposer {

namespace {

using namespace std::chrono_literals;

/// At most this many launches are under way. Each holds up two streams while
/// the program decides, and a GPU with a waiting stream in each channel does
/// nothing. Of the usual eight channels, these launches take four.
constexpr std::size_t most_launches = 2;

} // namespace

lane::lane(context& x)
    : in(x), context_id(x.id.load()), side(make_hidden_stream(x)),
      begun(make_event(x, CU_EVENT_DISABLE_TIMING)),
      value_slot(here().slots().take(here().idle())),
      turn_slot(here().slots().take(here().idle())),
      value(here().arena().take(sizeof(std::uint32_t))) {}

lane::~lane() {
  try {
    retire_hidden_stream(*side);
    retire_event(*begun);
    here().slots().give(value_slot);
    here().slots().give(turn_slot);
  } catch (const std::exception&) {
    // The session is lost.
  }
}

/// Returns an idle lane of the context, or null. Precondition: the mutex is
/// held.
std::unique_ptr<lane> lane_store::idle_of(const context& in) {
  auto found = std::find_if(idle_.begin(), idle_.end(), [&](auto& x) {
    return &x->in == &in && x->context_id == in.id.load();
  });
  if (found == idle_.end())
    return nullptr;
  auto out = std::move(*found);
  idle_.erase(found);
  return out;
}

CUresult lane_store::make(stream& in, std::unique_ptr<lane>& out) {
  out = std::make_unique<lane>(in.owner);
  auto code = device_word::take(in.device(), out->ended);
  return code != CUDA_SUCCESS ? code : out->ended.fill(in, 0);
}

CUresult lane_store::take(stream& in, std::unique_ptr<lane>& out) {
  {
    uncancelled through;
    std::unique_lock guard{mutex_};
    while (taken_ >= most_launches)
      if (given_.wait_for(guard, 100ms) == std::cv_status::timeout) {
        guard.unlock();
        here().idle()();
        guard.lock();
      }
    ++taken_;
    session_part::get().before_release.arm();
    out = idle_of(in.owner);
  }
  auto code = CUDA_SUCCESS;
  try {
    if (out == nullptr)
      code = make(in, out);
  } catch (...) {
    give(nullptr);
    throw;
  }
  if (code != CUDA_SUCCESS) {
    out.reset();
    give(nullptr);
  }
  return code;
}

void lane_store::give(std::unique_ptr<lane> x) {
  std::lock_guard guard{mutex_};
  if (x != nullptr)
    idle_.push_back(std::move(x));
  --taken_;
  session_part::get().before_release.disarm();
  given_.notify_all();
}

void lane_store::forget(const context& of) {
  // Its elements are destroyed after the lock is released.
  std::vector<std::unique_ptr<lane>> gone;
  std::lock_guard guard{mutex_};
  for (auto& x : idle_)
    if (&x->in == &of)
      gone.push_back(std::move(x));
  std::erase(idle_, nullptr);
}

void lane_store::wait_for_none() {
  if (taken_ == 0 || runs_host_functions()) [[likely]]
    return;
  uncancelled through;
  std::unique_lock guard{mutex_};
  while (taken_ != 0)
    if (given_.wait_for(guard, 100ms) == std::cv_status::timeout) {
      guard.unlock();
      here().idle()();
      guard.lock();
    }
}

} // namespace vgpu::interposer
