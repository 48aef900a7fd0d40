// Memory that goes from one worker to another of the same host as it is: the
// next one copies it from device to device, and no process touches a byte.
#include "actors/state/device_wait.hpp"
#include "actors/state/state_file.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/execute/executor_shared.hpp"

#include <algorithm>

namespace vgpu {

namespace {

/// No program names its memory so.
constexpr memory_id borrowed{~std::uint64_t{0}};

/// Calls `f(address, bytes)` for what of the ranges lies in [from, end).
template <class F>
status each_within(const std::map<device_address, std::uint64_t>& ranges,
                   device_address from, device_address end, F f) {
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

} // namespace

bool executor::can_lend_to(std::span<const std::uint32_t> pgpus) const {
  if (pgpus.size() != devices_.size())
    return false;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    // Where memory has to be copied to be shared, nothing would be saved.
    if (sharing_units_[d] == nullptr || memory_units_[d] == nullptr ||
        sharing_units_[d]->shares_at_rest() ||
        !sharing_units_[d]->is_reached_by(pgpus[d]))
      return false;
  return true;
}

/// Allocations that lie in the device's memory as they lie in the window. An
/// array may lie in it by an order of its own.
std::map<device_address, std::uint64_t>
executor::lendable_of(std::size_t device) const {
  auto out = states_[device].allocations();
  for (auto& [id, x] : states_[device].arrays())
    out.erase(x.address);
  return out;
}

status executor::lend(std::size_t device, std::vector<state_lent>& pieces,
                      std::vector<device::shared_descriptor>& to) const {
  // So that they are never too many for one answer.
  constexpr auto at_once = device::shared_object::most * granule_bytes;
  device_address known = 0; // all before is lent
  for (auto& [address, bytes] : lendable_of(device))
    for (auto at = std::max(known, address / granule_bytes * granule_bytes);
         at < address + bytes; at = known) {
      auto shared = sharing_units_[device]->share_memory(
          at, std::min(at_once, address + bytes - at));
      if (!shared)
        return shared.why();
      known = at - shared->lead;
      for (std::size_t i = 0; i < shared->what.words.size(); ++i) {
        auto part = shared->what.words[i];
        pieces.push_back({static_cast<std::uint32_t>(device), known, part});
        to.push_back(shared->what.descriptors[i]);
        known += part;
      }
    }
  return {};
}

status executor::take_lent(const state_lent& what, unique_fd memory) {
  auto base = window_of(what.device);
  if (what.device >= devices_.size() || what.address < base ||
      what.address - base > window_bytes - what.bytes ||
      sharing_units_[what.device] == nullptr ||
      memory_units_[what.device] == nullptr)
    return fault{CUDA_ERROR_INVALID_VALUE, "a vGPU's state lends memory at " +
                                               hex_of(what.address) +
                                               ", where this worker has none"};
  device::shared_object from{{what.bytes},
                             {std::make_shared<unique_fd>(std::move(memory))}};
  if (auto ok = sharing_units_[what.device]->import_memory(borrowed, what.bytes,
                                                           from);
      !ok)
    return ok;
  auto& to = *devices_[what.device];
  auto contents = lendable_of(what.device);
  auto ok = look_through(
      what.device, borrowed, what.bytes,
      [&](auto shown, auto offset, auto bytes) {
        auto begin = what.address + offset;
        return each_within(
            contents, begin, begin + bytes, [&](auto at, auto size) {
              return to.enqueue_copy(legacy_stream, {at, size, size},
                                     {shown + (at - begin), size, size},
                                     {size, 1, 1});
            });
      });
  auto gone = memory_units_[what.device]->destroy_memory(borrowed);
  return ok ? gone : ok;
}

} // namespace vgpu
