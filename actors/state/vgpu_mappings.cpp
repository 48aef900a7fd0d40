// The part of vgpu_state for memory that the program places by itself: memory
// with handles, and its mappings.
#include "actors/state/vgpu_state.hpp"
#include "schema/base/cuda_fault.hpp"

#include <iterator>
#include <string>
#include <utility>

namespace vgpu {

namespace {

bool is_whole(std::uint64_t x) {
  return x % granule_bytes == 0;
}

fault broken(const char* what) {
  return cuda_fault(CUDA_ERROR_INVALID_VALUE, what);
}

} // namespace

status vgpu_state::audit_memory(std::uint64_t bytes) const {
  if (bytes == 0 || !is_whole(bytes))
    return broken("physical memory is made of whole granules of 2 MiB");
  return audit_quota(bytes);
}

void vgpu_state::add(memory_id x, std::uint64_t bytes) {
  memories_.emplace(x, memory_state{bytes});
  account_.add(bytes);
}

status vgpu_state::audit_foreign(std::uint64_t bytes) const {
  if (bytes == 0 || !is_whole(bytes) || bytes > window_bytes)
    return broken("memory is shared in whole granules of 2 MiB");
  return audit_quota(0);
}

void vgpu_state::add_foreign(memory_id x, std::uint64_t bytes,
                             share_stake stake) {
  memories_.emplace(x, memory_state{.bytes = bytes,
                                    .foreign = true,
                                    .stake = std::make_shared<share_stake>(
                                        std::move(stake))});
}

std::uint64_t vgpu_state::take_over_foreign() {
  std::uint64_t bytes = 0;
  for (auto& [id, x] : memories_)
    if (x.foreign && x.stake->take_over()) {
      x.foreign = false;
      bytes += x.bytes;
    }
  account_.add(bytes);
  return bytes;
}

std::uint64_t vgpu_state::count_left(std::uint64_t bytes) {
  auto more = bytes - std::exchange(left_, bytes);
  account_.add(more);
  return more;
}

std::uint64_t vgpu_state::release(memory_id x) {
  memories_.at(x).named = false;
  return forget_unused(x);
}

std::uint64_t vgpu_state::forget_unused(memory_id x) {
  auto known = memories_.find(x);
  if (known->second.named || known->second.mappings != 0)
    return 0;
  auto bytes = known->second.foreign ? 0 : known->second.bytes;
  account_.remove(bytes);
  memories_.erase(known);
  return bytes;
}

std::uint64_t vgpu_state::shared_bytes() const {
  auto out = left_;
  for (auto& [id, x] : memories_)
    if (x.stake && !x.foreign)
      out += x.bytes;
  return out;
}

status vgpu_state::audit_map(const call::memory_map& x) const {
  auto& memory = memories_.at(x.memory.id);
  if (!is_whole(x.address))
    return broken("memory is mapped by whole granules of 2 MiB");
  if (x.bytes != memory.bytes)
    return broken("memory is mapped as a whole");
  return audit_place(x.address, x.bytes);
}

void vgpu_state::map(const call::memory_map& x) {
  mappings_.emplace(x.address, mapping_state{x.bytes, x.memory.id});
  ++memories_.at(x.memory.id).mappings;
}

status vgpu_state::audit_map(const call::host_map& x) const {
  if (x.bytes == 0 || !is_whole(x.address) || !is_whole(x.bytes) ||
      !is_whole(x.host))
    return broken("memory is mapped by whole granules of 2 MiB");
  return audit_place(x.address, x.bytes);
}

void vgpu_state::map(const call::host_map& x) {
  mappings_.emplace(x.address, mapping_state{x.bytes, std::nullopt});
}

status vgpu_state::audit_mapping(device_address address,
                                 std::uint64_t bytes) const {
  auto known = mappings_.find(address);
  if (known != mappings_.end() && known->second.bytes == bytes)
    return {};
  return broken("the range to unmap or to give access to is not a mapping");
}

std::uint64_t vgpu_state::unmap(device_address address) {
  auto known = mappings_.find(address);
  auto memory = known->second.memory;
  mappings_.erase(known);
  if (!memory)
    return 0;
  --memories_.at(*memory).mappings;
  return forget_unused(*memory);
}

/// Searches from the end of the program's part, which programs seldom reach.
std::optional<device_address>
vgpu_state::free_place(std::uint64_t bytes) const {
  for (auto left = device_placed_offset; left >= bytes; left -= bytes)
    if (auto at = window_ + left - bytes; !overlaps(at, bytes))
      return at;
  return std::nullopt;
}

/// Returns whether adjacent mappings together cover the range.
bool vgpu_state::maps(device_address address, std::uint64_t bytes) const {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin())
    return false;
  for (auto i = std::prev(next); i != mappings_.end(); ++i) {
    auto& [begin, x] = *i;
    if (address < begin || address - begin >= x.bytes ||
        x.access == memory_access::none)
      return false;
    auto here = x.bytes - (address - begin);
    if (bytes <= here)
      return true;
    address += here;
    bytes -= here;
  }
  return false;
}

} // namespace vgpu
