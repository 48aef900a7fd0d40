// Free and used parts of a range of addresses or offsets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace vgpu::interposer {

/// Hands out parts of [0, bytes) by best fit, at the lowest address among equal
/// fits. It joins free neighbours. Not thread-safe.
class range_allocator {
public:
  explicit range_allocator(std::uint64_t bytes);

  /// Returns the offset of `bytes` free bytes at a multiple of `alignment` (a
  /// power of two), or nothing. Precondition: bytes > 0.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes,
                                        std::uint64_t alignment);
  /// Returns such an offset at the begin or end of a free part that `accepts`
  /// takes, or nothing.
  std::optional<std::uint64_t>
  allocate_if(std::uint64_t bytes, std::uint64_t alignment,
              const std::function<bool(std::uint64_t)>& accepts);

  /// Frees a part, or a piece of one, that allocate() returned.
  void release(std::uint64_t offset, std::uint64_t bytes);

  std::uint64_t free_bytes() const noexcept { return free_bytes_; }

private:
  using part_map = std::map<std::uint64_t, std::uint64_t>;
  /// Takes a range out of a free part.
  void take(part_map::iterator part, std::uint64_t at, std::uint64_t bytes);
  void insert(std::uint64_t offset, std::uint64_t bytes);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator part);

  std::map<std::uint64_t, std::uint64_t> by_offset_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
  std::uint64_t free_bytes_ = 0;
};

} // namespace vgpu::interposer
