// The memory that a session has of one device, counted as the device takes it.
#pragma once

#include "schema/base/ids.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace vgpu {

/// Names the heap of kernels' malloc among a module's variables, where a device
/// knows its size. No variable of a program has such a name.
inline constexpr std::string_view device_heap_name = "the device heap";

/// Counts memory in granules, because a device backs only whole ones: small
/// ranges that lie in one granule cost it once. The program's side and the
/// worker each keep such a book of the same calls. So a worker refuses nothing
/// for which the program's side had room. Not thread-safe.
class memory_account {
public:
  /// Makes an empty book in granules of so many bytes.
  explicit memory_account(std::uint64_t granule = granule_bytes) noexcept
      : granule_(granule) {}

  // -- ranges of the window, which never overlap

  /// Returns the bytes by which insert() would raise used(). Precondition:
  /// bytes > 0.
  std::uint64_t cost(device_address address, std::uint64_t bytes) const;
  /// Counts a range. Returns its cost.
  std::uint64_t insert(device_address address, std::uint64_t bytes);
  /// Stops counting a range of insert(). Returns the bytes by which used()
  /// falls.
  std::uint64_t erase(device_address address, std::uint64_t bytes);

  // -- memory without addresses of its own

  /// Counts bytes as they are.
  void add(std::uint64_t bytes) noexcept { apart_ += bytes; }
  /// Stops counting bytes of add().
  void remove(std::uint64_t bytes) noexcept { apart_ -= bytes; }

  // -- variables of modules, which lie behind one another

  /// Returns the bytes by which add_variables() would raise used().
  std::uint64_t cost_of_variables(std::uint64_t bytes) const noexcept;
  /// Counts the variables of a module.
  void add_variables(std::uint64_t bytes) noexcept { variables_ += bytes; }
  /// Stops counting variables.
  void remove_variables(std::uint64_t bytes) noexcept { variables_ -= bytes; }
  /// Sets the size of the heap of kernels' malloc.
  void set_heap(std::uint64_t bytes) noexcept { heap_ = bytes; }

  /// Returns the sum in bytes.
  std::uint64_t used() const noexcept;
  /// Tells whether so many further bytes are within the quota. A session
  /// beyond its quota has room for nothing.
  bool has_room(std::uint64_t bytes, std::uint64_t quota) const noexcept;

private:
  /// Describes a range: whole granules, which nothing else can lie in, and at
  /// most two that it shares with others.
  struct extent {
    std::uint64_t whole = 0;
    std::array<std::uint64_t, 2> shared{};
    std::size_t count = 0;
  };
  extent extent_of(device_address address, std::uint64_t bytes) const noexcept;

  std::uint64_t granule_;
  std::uint64_t ranges_ = 0;
  std::uint64_t apart_ = 0;
  std::uint64_t variables_ = 0;
  std::uint64_t heap_ = 0;
  /// Counts the ranges in each granule that no range has alone.
  std::unordered_map<std::uint64_t, std::uint32_t> shared_;
};

} // namespace vgpu
