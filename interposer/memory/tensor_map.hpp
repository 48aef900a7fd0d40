// Tensor maps. A device's driver makes them, and the program keeps them.
#pragma once

#include "interposer/context/context.hpp"
#include "schema/base/tensor_map_descriptor.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace vgpu::interposer {

/// Caches maps by their arguments, because programs make the same maps at each
/// launch. A map depends on its arguments alone, so an entry never becomes
/// invalid. The cache has a fixed number of places, and replaces the least
/// recently used map of a set. Thread-safe.
class tensor_map_cache {
public:
  std::optional<tensor_map> find(std::uint8_t device,
                                 const tensor_map_spec& what);
  void keep(std::uint8_t device, const tensor_map_spec& what,
            const tensor_map& made);

private:
  static constexpr std::size_t sets = 64;
  /// Holds the number of places of one set.
  static constexpr std::size_t places = 4;

  struct entry {
    /// Holds the time of the latest use, or 0 for an empty entry.
    std::uint64_t used = 0;
    std::uint8_t device = 0;
    tensor_map_spec what{};
    tensor_map made{};
  };
  using set = std::array<entry, places>;

  static std::size_t set_of(std::uint8_t device,
                            const tensor_map_spec& what) noexcept;
  entry* look_up(std::uint8_t device, const tensor_map_spec& what);

  std::mutex mutex_;
  std::vector<set> sets_; // made with the first map
  std::uint64_t now_ = 0;
};

/// Tells whether the context's device copies by tensor maps.
bool has_tensor_maps(const context& in);

/// Makes the map on the context's device. Returns the driver's error where it
/// makes none, and does not change `out` then. As with a driver, and unlike the
/// documentation, `out` may have any alignment.
CUresult make_tensor_map(const context& in, const tensor_map_spec& what,
                         void* out);

} // namespace vgpu::interposer
