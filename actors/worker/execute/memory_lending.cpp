#include "actors/worker/execute/memory_lending.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace vgpu {

namespace {

/// Is an id that no program uses.
constexpr memory_id lent_id{~std::uint64_t{0}};

/// Calls `f(address, bytes)` for the parts of the ranges in [from, end).
template <class F>
status each_within(const memory_ranges& ranges, device_address from,
                   device_address end, F f) {
  auto i = ranges.upper_bound(from);
  if (i != ranges.begin())
    --i;
  for (; i != ranges.end() && i->first < end; ++i) {
    auto begin = std::max(i->first, from);
    auto stop = std::min(i->first + i->second, end);
    if (begin < stop)
      if (auto ok = f(begin, stop - begin); !ok)
        return ok;
  }
  return {};
}

bool can_lend_to(const device_capabilities& can, std::uint32_t pgpu) {
  // Where memory must be copied to be shared, lending saves nothing.
  return can.sharing != nullptr && can.memory != nullptr &&
         !can.sharing->shares_at_rest() && can.sharing->is_reached_by(pgpu);
}

} // namespace

std::string hex_of(std::uint64_t x) {
  char out[32];
  std::snprintf(out, sizeof(out), "0x%llx", static_cast<unsigned long long>(x));
  return out;
}

bool can_lend_to(const session_objects& session,
                 std::span<const std::uint32_t> pgpus) {
  return pgpus.size() == session.devices.size() &&
         std::ranges::all_of(session.devices, [&](auto& slot) {
           return can_lend_to(slot.can, pgpus[slot.ordinal]);
         });
}

status lend_memory(const device_slot& slot, std::vector<state_lent>& pieces,
                   std::vector<device::shared_descriptor>& to) {
  // This bounds the descriptors in one answer.
  constexpr auto at_once = device::shared_object::most * granule_bytes;
  device_address known = 0; // earlier memory is lent already
  for (auto& [address, bytes] : slot.lendable())
    for (auto at = std::max(known, address / granule_bytes * granule_bytes);
         at < address + bytes; at = known) {
      auto shared = slot.can.sharing->share_memory(
          at, std::min(at_once, address + bytes - at));
      if (!shared)
        return shared.why();
      known = at - shared->lead;
      for (std::size_t i = 0; i < shared->what.words.size(); ++i) {
        auto part = shared->what.words[i];
        pieces.push_back(
            {static_cast<std::uint32_t>(slot.ordinal), known, part});
        to.push_back(shared->what.descriptors[i]);
        known += part;
      }
    }
  return {};
}

status take_lent_memory(session_objects& session, const state_lent& what,
                        unique_fd memory) {
  auto base = window_of(what.device);
  if (what.device >= session.devices.size() || what.address < base ||
      what.address - base > window_bytes - what.bytes ||
      session.devices[what.device].can.sharing == nullptr ||
      session.devices[what.device].can.memory == nullptr)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a vGPU's state lends memory at " + hex_of(what.address) +
                          ", where this worker has none");
  auto& slot = session.devices[what.device];
  device::shared_object from{{what.bytes},
                             {std::make_shared<unique_fd>(std::move(memory))}};
  if (auto ok = slot.can.sharing->import_memory(lent_id, what.bytes, from); !ok)
    return ok;
  auto contents = slot.lendable();
  auto ok = slot.look_through(
      lent_id, what.bytes, [&](auto shown, auto offset, auto bytes) {
        auto begin = what.address + offset;
        return each_within(
            contents, begin, begin + bytes, [&](auto at, auto size) {
              return slot.device->enqueue_copy(
                  legacy_stream, {at, size, size},
                  {shown + (at - begin), size, size}, {size, 1, 1});
            });
      });
  auto gone = slot.can.memory->destroy_memory(lent_id);
  return ok ? gone : ok;
}

} // namespace vgpu
