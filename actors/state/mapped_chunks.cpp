#include "actors/state/mapped_chunks.hpp"

#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

namespace vgpu {

mapped_chunks::~mapped_chunks() {
  for (auto& [index, at] : segments_)
    if (at != nullptr)
      ::munmap(at, segment_bytes);
}

/// Returns null where a segment cannot be mapped apart from other mappings.
/// Requires the lock.
std::byte* mapped_chunks::segment(std::uint64_t index) {
  auto [known, is_new] = segments_.try_emplace(index, nullptr);
  if (!is_new)
    return known->second;
  auto* wanted = own_address(segment_bytes);
  if (wanted == nullptr)
    return nullptr;
  auto* at = ::mmap(wanted, segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    file_, static_cast<off_t>(index * segment_bytes));
  if (at != MAP_FAILED)
    known->second = static_cast<std::byte*>(at);
  return known->second;
}

std::span<std::byte> mapped_chunks::at(const state_chunk& x) {
  if (x.bytes != state_chunk_bytes || x.offset % state_chunk_bytes != 0)
    return {};
  std::span<std::byte> out;
  {
    std::lock_guard guard{mutex_};
    auto* in = segment(x.offset / segment_bytes);
    if (in == nullptr)
      return {};
    out = {in + x.offset % segment_bytes, state_chunk_bytes};
  }
  // All pages at once, which is faster than one fault for each. It fails behind
  // the end of the file, and where there is no memory.
  if (::madvise(out.data(), out.size(), MADV_POPULATE_WRITE) != 0)
    return {};
  return out;
}

} // namespace vgpu
