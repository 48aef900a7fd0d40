// The session's arrays, textures and surfaces on the real device.
#pragma once

#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/texture_description.hpp"

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vgpu::device::nvidia {

/// Maps handles to the driver's arrays and objects, and addresses in the
/// layout of layout_of() to places in arrays. The driver's own layout is its
/// secret: nothing stands behind these addresses. Called by the session's one
/// thread, which has the context.
class arrays {
public:
  explicit arrays(driver_ptr api) : api_(std::move(api)) {}

  status create(array_id id, const array_shape& shape, device_address at);
  /// Forgets the array; the caller destroys it when no work uses it any more.
  result<std::function<void()>> take(array_id id);

  /// Whether the address is one of an array's.
  bool holds(device_address address) const noexcept;

  /// A box of an array, as large as possible, that a range of addresses begins
  /// with. Without an array: bytes between two levels, which are nobody's.
  struct part {
    CUarray in = nullptr;
    std::uint64_t x = 0, y = 0, z = 0; // x in bytes
    std::uint64_t width = 0, height = 1, depth = 1;

    std::uint64_t bytes() const noexcept { return width * height * depth; }
  };
  /// CUDA_ERROR_INVALID_VALUE where the range leaves the array.
  result<part> first_part(device_address address, std::uint64_t bytes) const;
  /// As first_part, of at most the rest of one row.
  result<part> first_run(device_address address, std::uint64_t bytes) const;

  result<std::uint64_t> create_texture(texture_id id, const texture_spec& what);
  /// Looks for a driver's object of that value where it gave another; a fault
  /// where it gives none such.
  status name_texture(texture_id id, std::uint64_t value);
  status destroy_texture(texture_id id);

private:
  struct entry {
    array_id id;
    array_layout layout;
    CUarray plain = nullptr;
    CUmipmappedArray mipped = nullptr;
    std::vector<CUarray> levels;
  };
  struct object {
    texture_spec what;
    std::uint64_t value = 0;
  };

  const entry* find(array_id id) const;
  result<std::uint64_t> make(const texture_spec& what);
  void unmake(const texture_spec& what, std::uint64_t value);

  driver_ptr api_;
  std::map<device_address, entry> by_address_;
  std::unordered_map<texture_id, object> textures_;
};

} // namespace vgpu::device::nvidia
