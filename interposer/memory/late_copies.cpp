#include "interposer/memory/late_copies.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/own_thread.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/session/uncancelled.hpp"
#include "interposer/stream/host_call.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace vgpu::interposer {

using namespace std::chrono_literals;

/// Represents a copy for which its stream waits.
class late_copy_list::copy final : public stream_task {
public:
  copy(late_copy_list& list, place& in, std::unique_ptr<event> reached,
       std::unique_ptr<copy_steps> what)
      : list_(list), in_(in), reached_(std::move(reached)),
        what_(std::move(what)) {}
  copy(const copy&) = delete;
  copy& operator=(const copy&) = delete;
  ~copy() override {
    if (reached_ != nullptr)
      list_.give(in_, std::move(reached_));
    list_.ended();
  }

  event& reached() noexcept { return *reached_; }

  stream* step(CUresult status) noexcept override {
    if (status != CUDA_SUCCESS)
      return nullptr;
    try {
      // The stream has come here, but a replay knows that only from the log.
      if (reached_ != nullptr) {
        (void)wait(*in_.side, *reached_);
        list_.give(in_, std::move(reached_));
      }
      return what_->step(*in_.side) ? in_.side.get() : nullptr;
    } catch (const std::exception& e) {
      report_exception(e.what());
      return nullptr;
    }
  }

private:
  late_copy_list& list_;
  place& in_;
  // The event before the copy; null after the first step
  std::unique_ptr<event> reached_;
  const std::unique_ptr<copy_steps> what_;
};

late_copy_list::place& late_copy_list::place_of(context& in) {
  std::lock_guard one{making_};
  {
    std::lock_guard guard{mutex_};
    for (auto& x : places_)
      if (&x->in == &in && x->context_id == in.id.load())
        return *x;
  }
  std::unique_ptr<place> made{
      new place{in, in.id.load(), make_hidden_stream(in), {}}};
  std::lock_guard guard{mutex_};
  return *places_.emplace_back(std::move(made));
}

void late_copy_list::prepare(context& in) {
  if (!host_calls().may_change(0, ~std::uint64_t{0}))
    on_occasion<occasion::first_use>([&] { (void)place_of(in.root); });
}

std::unique_ptr<event> late_copy_list::take_event(place& x) {
  {
    std::lock_guard guard{mutex_};
    if (!x.idle.empty()) {
      auto out = std::move(x.idle.back());
      x.idle.pop_back();
      return out;
    }
  }
  return make_event(x.in, CU_EVENT_DISABLE_TIMING);
}

void late_copy_list::give(place& x, std::unique_ptr<event> what) {
  std::lock_guard guard{mutex_};
  x.idle.push_back(std::move(what));
}

CUresult late_copy_list::add(stream& in, std::uint64_t begin, std::uint64_t end,
                             std::unique_ptr<copy_steps> what) {
  auto& where = place_of(in.owner);
  auto reached = take_event(where);
  {
    std::lock_guard guard{mutex_};
    pending_.fetch_add(1);
    session_part::get().before_release.arm();
  }
  auto made =
      std::make_shared<copy>(*this, where, std::move(reached), std::move(what));
  if (auto code = record(made->reached(), in); code != CUDA_SUCCESS)
    return code;
  return host_calls().add_task(in, std::move(made), begin, end);
}

void late_copy_list::ended() {
  std::lock_guard guard{mutex_};
  pending_.fetch_sub(1);
  session_part::get().before_release.disarm();
  none_.notify_all();
}

void late_copy_list::wait_for_none() {
  if (pending_ == 0 || runs_host_functions()) [[likely]]
    return;
  uncancelled through;
  std::unique_lock guard{mutex_};
  while (pending_ != 0)
    if (none_.wait_for(guard, 100ms) == std::cv_status::timeout) {
      guard.unlock();
      here().idle()();
      guard.lock();
    }
}

void late_copy_list::forget(const context& of) {
  wait_for_none();
  std::vector<std::unique_ptr<place>> gone;
  {
    std::lock_guard guard{mutex_};
    for (auto& x : places_)
      if (&x->in == &of)
        gone.push_back(std::move(x));
    std::erase(places_, nullptr);
  }
  for (auto& x : gone) {
    retire_hidden_stream(*x->side);
    for (auto& idle : x->idle)
      retire_event(*idle);
  }
}

late_copy_list& late_copies() noexcept {
  return memory_part::get().late_copies;
}

} // namespace vgpu::interposer
