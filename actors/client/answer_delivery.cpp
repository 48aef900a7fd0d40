#include "actors/client/answer_delivery.hpp"

#include "actors/link/log.hpp"
#include "schema/base/streaming_copy.hpp"
#include "schema/log/changed_lines.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace vgpu {

namespace {

/// Gives the size from which bytes are copied through a mapping, because the
/// kernel examines each page of a file that is written to.
constexpr std::size_t host_mapped_from = std::size_t{64} << 10;

} // namespace

bool answer_delivery::deliver(const data::answer& x,
                              std::span<const std::byte> payload) {
  if (!place(x, payload))
    return false;
  const auto& area = *opened_.area;
  area.note_result(x.call, x.digest, payload);
  area.answer(x.slot, x.call, x.result, x.value);
  return x.slot != 0;
}

/// Returns true where the call is answered with it.
bool answer_delivery::place(const data::answer& x,
                            std::span<const std::byte> payload) {
  using where = data::answer::place;
  const auto& area = *opened_.area;
  switch (x.where) {
  case where::none:
    if (x.slot == 0)
      area.header().sticky_error = static_cast<std::uint32_t>(x.result);
    return true;
  case where::arena:
    return place_in_arena(x, payload);
  case where::host:
    return place_in_host(x, payload);
  case where::zero_copy:
    merge_zero_copy(payload);
    return false;
  case where::output:
  case where::error:
    area.print(x.where == where::output ? console::output : console::error,
               x.at,
               {reinterpret_cast<const char*>(payload.data()), payload.size()});
    return true;
  case where::times:
    area.print(console::times, session_area::at_end,
               {reinterpret_cast<const char*>(payload.data()), payload.size()});
    return false;
  case where::host_call:
    area.call_host(x.slot, x.call);
    return false;
  }
  return true;
}

/// Writes into the reply arena. A part of an answer does not name the slot of
/// its call, so all slots are searched.
bool answer_delivery::place_in_arena(const data::answer& x,
                                     std::span<const std::byte> payload) {
  const auto& area = *opened_.area;
  if (x.slot != 0 ? !area.waits(x.slot, x.call) : !is_awaited(x.call))
    return false;
  auto arena = area.arena();
  if (x.at > arena.size() || payload.size() > arena.size() - x.at)
    return false;
  streaming_copy(arena.data() + x.at, payload.data(), payload.size());
  return true;
}

/// Writes into pinned memory. An answer that a former client delivered is
/// dropped, because the program may have reused the memory.
bool answer_delivery::place_in_host(const data::answer& x,
                                    std::span<const std::byte> payload) {
  if (!opened_.area->in_host(x.at, payload.size()) || !is_awaited(x.call))
    return false;
  write_host(x.at - host_window, payload);
  return true;
}

/// Returns whether the program waits for this call in some slot. Only the last
/// part of an answer names the slot.
bool answer_delivery::is_awaited(call_number call) {
  const auto& area = *opened_.area;
  if (area.waits(awaited_in_, call))
    return true;
  for (unsigned i = 1; i < slot_count; ++i)
    if (area.waits(static_cast<slot_index>(i), call)) {
      awaited_in_ = static_cast<slot_index>(i);
      return true;
    }
  return false;
}

/// Maps the program's pinned memory. Returns false where there are no addresses
/// for it.
bool answer_delivery::view_host() {
  if (!host_view_) {
    auto view = opened_.area->view_host();
    host_view_ = view ? std::move(*view) : mapping{};
  }
  return host_view_->data() != nullptr;
}

/// Writes into the program's pinned memory.
void answer_delivery::write_host(std::uint64_t offset,
                                 std::span<const std::byte> bytes) {
  if (bytes.size() >= host_mapped_from && view_host())
    streaming_copy(host_view_->data() + offset, bytes.data(), bytes.size());
  else if (!bytes.empty() &&
           ::pwrite(opened_.area->host_fd(), bytes.data(), bytes.size(),
                    static_cast<off_t>(offset)) < 0)
    spdlog::error("cannot write to pinned memory: {}", std::strerror(errno));
}

/// Applies kernels' writes to memory that they use in place. Bytes that the
/// program has written since stay: they are newer, or a replay repeats what the
/// program had before.
void answer_delivery::merge_zero_copy(std::span<const std::byte> payload) {
  const auto& area = *opened_.area;
  if (!host_known_) {
    auto view = area.view_host_known();
    host_known_ = view ? std::move(*view) : mapping{};
  }
  if (!view_host() || host_known_->data() == nullptr)
    return spdlog::error("{}: no addresses for the program's pinned memory: it "
                         "lacks what kernels wrote there",
                         opened_.program.name);
  constexpr std::chrono::milliseconds patience{10};
  host_guard guard{area.header().host_taken, patience};
  for (auto& x : lines_of(payload)) {
    if (!area.in_host(x.address, changed_line::bytes))
      continue;
    auto* memory = host_view_->data() + (x.address - host_window);
    auto* known = host_known_->data() + (x.address - host_window);
    each_change(x, [&](std::size_t i, std::byte now) {
      if (memory[i] == known[i])
        memory[i] = now;
      known[i] = now;
    });
  }
}

} // namespace vgpu
