#include "interposer/session/range_allocator.hpp"

#include "schema/base/round_up.hpp"

#include <iterator>

namespace vgpu::interposer {

range_allocator::range_allocator(std::uint64_t bytes) {
  if (bytes != 0)
    insert(0, bytes);
}

std::optional<std::uint64_t>
range_allocator::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  // A part of nearly the right size may not hold an aligned range. The loop
  // meets few such parts, because there are few alignments.
  for (auto i = by_size_.lower_bound({bytes, 0}); i != by_size_.end(); ++i) {
    auto [size, offset] = *i;
    auto at = round_up(offset, alignment);
    if (at - offset > size - bytes)
      continue;
    take(by_offset_.find(offset), at, bytes);
    return at;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> range_allocator::allocate_if(
    std::uint64_t bytes, std::uint64_t alignment,
    const std::function<bool(std::uint64_t)>& accepts) {
  for (auto i = by_size_.lower_bound({bytes, 0}); i != by_size_.end(); ++i) {
    auto [size, offset] = *i;
    auto first = round_up(offset, alignment);
    if (first - offset > size - bytes)
      continue;
    auto last = (offset + size - bytes) / alignment * alignment;
    for (auto at : {first, last})
      if (accepts(at)) {
        take(by_offset_.find(offset), at, bytes);
        return at;
      }
  }
  return std::nullopt;
}

void range_allocator::take(part_map::iterator part, std::uint64_t at,
                           std::uint64_t bytes) {
  auto [offset, size] = *part;
  erase(part);
  if (at != offset)
    insert(offset, at - offset);
  if (auto rest = offset + size - (at + bytes); rest != 0)
    insert(at + bytes, rest);
}

void range_allocator::release(std::uint64_t offset, std::uint64_t bytes) {
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == offset + bytes) {
    bytes += next->second;
    auto gone = next++;
    erase(gone);
  }
  if (next != by_offset_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      erase(before);
    }
  }
  insert(offset, bytes);
}

void range_allocator::insert(std::uint64_t offset, std::uint64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void range_allocator::erase(
    std::map<std::uint64_t, std::uint64_t>::iterator part) {
  free_bytes_ -= part->second;
  by_size_.erase({part->second, part->first});
  by_offset_.erase(part);
}

} // namespace vgpu::interposer
