#include "interposer/memory/zero_copy.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/memory/registered_memory.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <sys/mman.h>

namespace vgpu::interposer {

zero_copy_memory& zero_copy() noexcept {
  return memory_part::get().zero_copy;
}

void zero_copy_memory::allocated() noexcept {
  pinned_.fetch_add(1);
  session_part::get().before_wait.arm();
}

void zero_copy_memory::note(device_address at) {
  std::lock_guard guard{mutex_};
  auto& s = here();
  auto next = ranges_.upper_bound(at);
  if (next != ranges_.begin() &&
      at - std::prev(next)->first < std::prev(next)->second.bytes)
    return;
  auto known = s.host_space().find(at);
  if (!known)
    return;
  on_occasion<occasion::first_use>([&] {
    s.send(call::zero_copy{known->address, known->bytes}, known->device);
  });
  ranges_[known->address] = {.bytes =
                                 round_up(known->bytes, changed_line::bytes),
                             .device = known->device};
  any_ = true;
}

/// Notes the pinned memory that the arguments point into, and sends its
/// changes. It takes no lock where no pinned memory is in use by kernels.
bool zero_copy_memory::before_launch(std::span<const std::byte> arguments) {
  registered().put_changes();
  auto bytes = here().area().host_bytes();
  auto noted = here().apart();
  // Memory of the host that is mapped has other addresses, and is noted
  // already.
  auto out = virtual_memories().any_on_host();
  for (std::size_t at = 0; at + sizeof(device_address) <= arguments.size();
       at += sizeof(device_address)) {
    device_address x = 0;
    std::memcpy(&x, &arguments[at], sizeof(x));
    if (in_host_window(x, bytes)) [[unlikely]] {
      out = true;
      if (noted)
        note(x);
    }
  }
  if (noted)
    tell_if_any();
  return out;
}

void zero_copy_memory::before_fill(device_address to) {
  if (!here().apart())
    return;
  note(to);
  tell_if_any();
}

void zero_copy_memory::tell_if_any() {
  if (!any_.load(std::memory_order_relaxed))
    return;
  std::lock_guard guard{mutex_};
  tell();
}

/// Sends the program's changes. It does not wait long for the lock, because the
/// lock's holder may wait for the end of the very host function that runs this.
void zero_copy_memory::tell_now() {
  constexpr std::chrono::milliseconds patience{100};
  auto& own = zero_copy();
  if (!own.any_.load(std::memory_order_relaxed) || !here().apart())
    return;
  std::unique_lock guard{own.mutex_, patience};
  if (guard)
    own.tell();
}

void zero_copy_memory::freed(device_address at) {
  pinned_.fetch_sub(1);
  session_part::get().before_wait.disarm();
  std::lock_guard guard{mutex_};
  auto gone = ranges_.extract(at);
  any_ = !ranges_.empty();
  if (gone && known_)
    ::madvise(known_->data() + (at - host_window),
              round_up(gone.mapped().bytes, page_bytes), MADV_REMOVE);
}

/// Sends the program's changes. Precondition: the lock is held.
void zero_copy_memory::tell() {
  auto& area = here().area();
  if (!known_) {
    auto view = area.view_host_known();
    if (!view)
      return log_line(log_level::error, view.why().what +
                                            ": kernels do not see what the "
                                            "program writes there");
    known_ = std::move(*view);
  }
  auto number = area.header().host_apart.load();
  for (auto& [at, x] : ranges_) {
    auto first = std::exchange(x.told, number) != number;
    auto* memory = reinterpret_cast<std::byte*>(at); // NOLINT: the host window
    auto* known = known_->data() + (at - host_window);
    lines_.clear();
    {
      constexpr std::chrono::seconds patience{1};
      host_guard guard{area.header().host_taken, patience};
      take_changes({memory, x.bytes}, {known, x.bytes}, at, first, lines_);
    }
    constexpr auto at_once = max_payload / sizeof(changed_line);
    for (std::span rest{lines_}; !rest.empty();) {
      auto part = rest.first(std::min(rest.size(), at_once));
      here().send(call::zero_copy_write{part.size()}, x.device,
                  std::as_bytes(part));
      rest = rest.subspan(part.size());
    }
  }
}

} // namespace vgpu::interposer
