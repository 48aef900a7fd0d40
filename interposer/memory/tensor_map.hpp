// Tensor maps: a device's driver makes them, and the program keeps them.
#pragma once

#include "interposer/context/context.hpp"
#include "schema/base/tensor_map_descriptor.hpp"

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace vgpu::interposer {

/// Maps that were made before, by their arguments: programs make the same ones
/// at each launch. A map depends on nothing else, so that none goes stale;
/// there is a fixed number of places, of which the least recently used few are
/// taken again. Thread-safe.
class tensor_map_cache {
public:
  std::optional<tensor_map> find(std::uint8_t device,
                                 const tensor_map_spec& what);
  void keep(std::uint8_t device, const tensor_map_spec& what,
            const tensor_map& made);

private:
  static constexpr std::size_t sets = 64;
  static constexpr std::size_t places = 4; ///< where one may lie in its set

  struct entry {
    std::uint64_t used = 0; ///< when it last was; 0: there is none
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

/// Whether the context's device copies by such maps.
bool has_tensor_maps(const context& in);

/// The map that the context's device makes of `what`; the driver's error where
/// it makes none, and `out` is left alone then. Any address will do for it, as
/// for a driver, whatever the documentation says of alignment.
CUresult make_tensor_map(const context& in, const tensor_map_spec& what,
                         void* out);

} // namespace vgpu::interposer
