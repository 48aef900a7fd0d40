#include "interposer/cupti/activity_log.hpp"

#include "interposer/code/module.hpp"
#include "interposer/context/context.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

/// A worker tells times before it answers, except where a call is answered
/// while it is still being executed.
constexpr auto patience = std::chrono::milliseconds{200};
/// Times that nobody asks for are forgotten at this number.
constexpr std::size_t most_early = 4096;

std::uint64_t now_ns() noexcept {
  timespec x{};
  ::clock_gettime(CLOCK_REALTIME, &x);
  return static_cast<std::uint64_t>(x.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(x.tv_nsec);
}

std::optional<wait_kind> wait_of(std::string_view name) noexcept {
  if (name.starts_with("cuCtxSynchronize"))
    return wait_kind::context;
  if (name.starts_with("cuStreamSynchronize"))
    return wait_kind::stream;
  if (name.starts_with("cuEventSynchronize"))
    return wait_kind::event;
  if (name.starts_with("cuStreamWaitEvent"))
    return wait_kind::stream_for_event;
  return std::nullopt;
}

std::uint32_t context_of(std::uint8_t device) noexcept {
  const auto* current = current_context();
  return current != nullptr ? static_cast<std::uint32_t>(current->id.load())
                            : device + 1U;
}

std::uint32_t low(std::uint64_t x) noexcept {
  return static_cast<std::uint32_t>(x);
}

std::uint64_t bytes_in(const call::extent& x) noexcept {
  return x.width * x.height * x.depth;
}

memory_place place_of(device_address at) noexcept {
  return in_host_window(at) ? memory_place::pinned : memory_place::device;
}

} // namespace

/// Holds the entry point that the thread is in. Entry points that it calls
/// belong to it.
struct activity_log::thread_call {
  unsigned depth = 0;
  activity what;
  std::string_view name;
  pending_ptr copy; // to which further parts belong
  std::uint32_t stream = no_stream;
  memory_place source = memory_place::pageable; // of a copy to the device
};

activity_log::thread_call& activity_log::own() noexcept {
  thread_local thread_call x;
  return x;
}

// -- beginning and ending -----------------------------------------------------

bool activity_log::wants(activity_reader who) const noexcept {
  std::lock_guard guard{mutex_};
  return wanted_[static_cast<std::size_t>(who)];
}

bool activity_log::wants_any() const noexcept {
  std::lock_guard guard{mutex_};
  return std::find(wanted_.begin(), wanted_.end(), true) != wanted_.end();
}

void activity_log::switch_work(bool on) {
  here().send(call::time_work{on ? 1U : 0U}, 0);
}

void activity_log::switch_tracer() {
  auto listens = std::any_of(listeners_.begin(), listeners_.end(),
                             [](auto& x) { return x.load() != nullptr; });
  active_tracer.store(listens || wants_any() ? this : nullptr,
                      std::memory_order_release);
}

void activity_log::begin(activity_reader who) {
  std::lock_guard switching{switching_};
  if (!wants_any())
    switch_work(true);
  {
    std::lock_guard guard{mutex_};
    wanted_[static_cast<std::size_t>(who)] = true;
  }
  switch_tracer();
}

void activity_log::end(activity_reader who) {
  std::lock_guard switching{switching_};
  auto i = static_cast<std::size_t>(who);
  {
    std::lock_guard guard{mutex_};
    if (!std::exchange(wanted_[i], false))
      return;
    done_[i].clear();
  }
  switch_tracer();
  if (wants_any())
    return;
  switch_work(false);
  std::lock_guard guard{mutex_};
  pending_.clear();
  awaited_.clear();
}

void activity_log::listen(activity_reader who, call_listener* to) {
  std::lock_guard switching{switching_};
  listeners_[static_cast<std::size_t>(who)].store(to);
  switch_tracer();
}

// -- calls --------------------------------------------------------------------

void activity_log::enters(std::string_view body) noexcept {
  auto& x = own();
  if (x.depth++ != 0)
    return;
  const auto* given = call_arguments::current();
  x.name = given != nullptr ? given->name() : entry_point_of(body);
  x.stream = no_stream;
  x.what = {};
  x.what.correlation = ++last_correlation_;
  x.what.process = low(static_cast<std::uint64_t>(::getpid()));
  x.what.thread = low(static_cast<std::uint64_t>(::syscall(SYS_gettid)));
  x.what.context = context_of(0);
  if (const auto* current = current_context(); current != nullptr)
    x.what.context_handle = current->handle;
  if (given != nullptr)
    x.what.arguments = given->bytes();
  x.what.in_graph = x.name.starts_with("cuGraphLaunch") ? 1 : 0;
  x.what.is_async = x.name.find("Async") != x.name.npos ? 1 : 0;
  try {
    std::lock_guard guard{mutex_};
    x.what.name = texts_.keep(x.name);
  } catch (const std::bad_alloc&) {
    x.what.name = "";
  }
  x.what.called = x.what.began = now_ns();
  // Functions of export tables have no name, and are no calls of the program.
  if (x.name.empty())
    return;
  for (auto& to : listeners_)
    if (auto* listener = to.load(); listener != nullptr)
      listener->begins(x.what);
}

void activity_log::leaves(CUresult result) noexcept {
  auto& x = own();
  if (--x.depth != 0)
    return;
  x.what.ended = now_ns();
  x.what.result = static_cast<std::uint32_t>(result);
  try {
    std::lock_guard guard{mutex_};
    if (auto copy = std::exchange(x.copy, nullptr))
      less(*copy);
    if (x.name.empty())
      return;
    give(x.what);
    if (auto kind = wait_of(x.name)) {
      auto wait = x.what;
      wait.kind = activity_kind::wait;
      wait.waits_for = *kind;
      wait.stream = x.stream;
      give(wait);
    }
  } catch (const std::bad_alloc&) {
    // Memory is short, so the call is not told.
  }
  for (auto& to : listeners_)
    if (auto* listener = to.load(); listener != nullptr)
      listener->ends(x.what);
}

// -- work ---------------------------------------------------------------------

activity activity_log::made(activity_kind kind, std::uint8_t device,
                            std::uint32_t stream) const {
  auto& x = own();
  // Work that no call of this thread appends has a call's number of its own.
  auto out = x.depth != 0 ? x.what : activity{};
  out.kind = kind;
  out.name = "";
  out.device = device;
  out.stream = stream;
  out.context = context_of(device);
  if (x.depth == 0)
    out.called = now_ns();
  return out;
}

void activity_log::copies_from(device_address source) noexcept {
  own().source =
      in_host_window(source) ? memory_place::pinned : memory_place::pageable;
}

void activity_log::launched(const call::launch& x, const function& what,
                            std::uint8_t device, call_number number) noexcept {
  auto out = made(activity_kind::kernel, device, low(x.stream.id.value));
  out.context = low(what.in->owner.id.load());
  out.grid[0] = x.grid.x;
  out.grid[1] = x.grid.y;
  out.grid[2] = x.grid.z;
  out.block[0] = x.block.x;
  out.block[1] = x.block.y;
  out.block[2] = x.block.z;
  out.cluster[0] = x.cluster.x;
  out.cluster[1] = x.cluster.y;
  out.cluster[2] = x.cluster.z;
  out.dynamic_shared = x.dynamic_shared;
  auto of = [&](int key) {
    return static_cast<std::uint32_t>(what.attribute(key));
  };
  out.static_shared = of(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  out.local = of(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  out.registers = of(CU_FUNC_ATTRIBUTE_NUM_REGS);
  try {
    std::lock_guard guard{mutex_};
    out.name = texts_.keep(what.name);
  } catch (const std::bad_alloc&) {
    out.name = "";
  }
  add(out, number);
}

void activity_log::add_write(const call::extent& size, stream_id stream,
                             std::uint8_t device, call_number number) noexcept {
  auto out = made(activity_kind::copy, device, low(stream.value));
  out.from = own().source;
  out.bytes = bytes_in(size);
  add_copy(out, number);
}

void activity_log::appended(const call::write& x, std::uint8_t device,
                            call_number number) noexcept {
  add_write(x.size, x.stream.id, device, number);
}

void activity_log::appended(const call::late_write& x, std::uint8_t device,
                            call_number number) noexcept {
  add_write(x.size, x.stream.id, device, number);
}

void activity_log::add_read(const call::extent& size, stream_id stream,
                            memory_place to, std::uint8_t device,
                            call_number number) noexcept {
  auto out = made(activity_kind::copy, device, low(stream.value));
  out.to = to;
  out.bytes = bytes_in(size);
  add_copy(out, number);
}

void activity_log::appended(const call::read& x, std::uint8_t device,
                            call_number number) noexcept {
  add_read(x.size, x.stream.id, memory_place::pageable, device, number);
}

void activity_log::appended(const call::read_host& x, std::uint8_t device,
                            call_number number) noexcept {
  add_read(x.size, x.stream.id, memory_place::pinned, device, number);
}

void activity_log::appended(const call::copy& x, std::uint8_t device,
                            call_number number) noexcept {
  auto out = made(activity_kind::copy, device, low(x.stream.id.value));
  out.from = place_of(x.from.address);
  out.to = place_of(x.to.address);
  out.from_device = here().device_of(x.from.address).value_or(device);
  out.bytes = bytes_in(x.size);
  add_copy(out, number);
}

void activity_log::appended(const call::fill& x, std::uint8_t device,
                            call_number number) noexcept {
  auto out = made(activity_kind::fill, device, low(x.stream.id.value));
  out.to = place_of(x.to.address);
  out.value = x.value;
  out.bytes = bytes_in(x.size) * x.element_bytes;
  add(out, number);
}

void activity_log::appended(const call::stream_sync& x, std::uint8_t,
                            call_number) noexcept {
  own().stream = low(x.stream.id.value);
}

void activity_log::appended(const call::stream_wait& x, std::uint8_t,
                            call_number) noexcept {
  own().stream = low(x.stream.id.value);
}

void activity_log::answered(call_number number) noexcept {
  try {
    std::lock_guard guard{mutex_};
    if (pending_.contains(number.value))
      awaited_.insert(number.value);
  } catch (const std::bad_alloc&) {
    // The activity may then come later.
  }
}

void activity_log::add(const activity& what, call_number number) noexcept {
  try {
    std::lock_guard guard{mutex_};
    add_locked(std::make_shared<pending>(pending{what}), number);
  } catch (const std::bad_alloc&) {
    // Memory is short, so the work is not told.
  }
}

/// Adds a copy, or one more part of the copy that the call makes.
void activity_log::add_copy(const activity& what, call_number number) noexcept {
  auto& x = own();
  if (x.depth == 0 || what.in_graph != 0 || x.name.find("Batch") != x.name.npos)
    return add(what, number);
  try {
    std::lock_guard guard{mutex_};
    if (x.copy && x.copy->what.from == what.from &&
        x.copy->what.to == what.to && x.copy->what.stream == what.stream) {
      x.copy->what.bytes += what.bytes;
      ++x.copy->parts;
    } else {
      if (x.copy)
        less(*x.copy);
      x.copy = std::make_shared<pending>(pending{what, 2});
    }
    add_locked(x.copy, number);
  } catch (const std::bad_alloc&) {
    // Memory is short, so the work is not told.
  }
}

void activity_log::add_locked(const pending_ptr& what, call_number number) {
  if (std::find(wanted_.begin(), wanted_.end(), true) == wanted_.end())
    return;
  if (pending_.size() >= most_kept)
    return drop();
  pending_.insert_or_assign(number.value, what);
  if (auto early = early_.extract(number.value); !early.empty())
    settle(early.mapped());
}

void activity_log::drop() {
  for (std::size_t i = 0; i < activity_readers; ++i)
    dropped_[i] += wanted_[i] ? 1 : 0;
}

/// Notes that one of the parts has its times, or that no further part comes.
void activity_log::less(pending& x) {
  if (--x.parts == 0 && x.has_times)
    give(x.what);
}

void activity_log::give(const activity& x) {
  for (std::size_t i = 0; i < activity_readers; ++i) {
    if (!wanted_[i])
      continue;
    if (done_[i].size() < most_kept)
      done_[i].push_back(x);
    else
      ++dropped_[i];
  }
}

// -- times --------------------------------------------------------------------

void activity_log::collect() {
  const auto& area = here().area();
  if (!area.has_text(console::times))
    return;
  auto lost = area.lost_text(console::times) / sizeof(work_times);
  for (std::size_t i = 0; i < activity_readers; ++i)
    dropped_[i] += wanted_[i] ? lost : 0;
  auto bytes = area.take_text(console::times);
  for (std::size_t at = 0; at + sizeof(work_times) <= bytes.size();
       at += sizeof(work_times)) {
    work_times x;
    std::memcpy(&x, bytes.data() + at, sizeof x);
    settle(x);
  }
}

void activity_log::settle(const work_times& x) {
  auto found = pending_.extract(x.call);
  if (found.empty()) {
    if (early_.size() >= most_early)
      early_.clear();
    early_.insert_or_assign(x.call, x);
    return;
  }
  awaited_.erase(x.call);
  auto& to = *found.mapped();
  clock_.learn(to.what.called, now_ns(), x.received, x.ended);
  auto received = clock_.here(x.received);
  if (std::exchange(to.has_times, true)) {
    to.what.began = std::min(to.what.began, clock_.here(x.began));
    to.what.ended = std::max(to.what.ended, clock_.here(x.ended));
  } else {
    to.what.received = received;
    to.what.submitted = clock_.here(x.submitted);
    to.what.reached = clock_.here(x.reached);
    to.what.began = clock_.here(x.began);
    to.what.ended = clock_.here(x.ended);
  }
  less(to);
}

std::vector<activity> activity_log::take(activity_reader who) {
  auto i = static_cast<std::size_t>(who);
  auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    {
      std::lock_guard guard{mutex_};
      collect();
      if (awaited_.empty() || std::chrono::steady_clock::now() >= until) {
        awaited_.clear();
        std::vector<activity> out{done_[i].begin(), done_[i].end()};
        done_[i].clear();
        return out;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

std::uint64_t activity_log::take_dropped(activity_reader who) {
  std::lock_guard guard{mutex_};
  return std::exchange(dropped_[static_cast<std::size_t>(who)], 0);
}

std::size_t activity_log::size(activity_reader who) const {
  std::lock_guard guard{mutex_};
  return done_[static_cast<std::size_t>(who)].size() + pending_.size();
}

} // namespace vgpu::interposer
