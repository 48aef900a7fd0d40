// The arrays, textures and surfaces of a session.
#pragma once

#include "devices/cpu/run/texture_sampler.hpp"
#include "schema/base/fault.hpp"

#include <map>
#include <memory>

namespace vgpu::device::cpu {

/// Holds the session's arrays and objects. One thread makes all calls; any
/// thread may read what known() returned.
class texture_store {
public:
  /// Adds an array whose elements lie at `at`, in the layout of layout_of().
  status add_array(array_id id, const array_shape& shape, device_address at);
  /// Removes an array.
  status remove_array(array_id id);

  /// Adds an object and returns its value, which is its id, as the program's
  /// side chose it.
  result<std::uint64_t> add(texture_id id, const texture_spec& what);
  /// Lets kernels find the object by a further value, which a device of another
  /// kind gave it. Returns CUDA_ERROR_INVALID_HANDLE where another object has
  /// that value.
  status name(texture_id id, std::uint64_t value);
  /// Removes an object.
  status remove(texture_id id);

  /// Returns the present table of objects. Later changes do not alter it.
  std::shared_ptr<const texture_table> known() const { return known_; }

private:
  struct placed_array {
    array_shape shape;
    device_address at = 0;
  };

  template <class F>
  void change(F f) {
    auto copy = std::make_shared<texture_table>(*known_);
    f(*copy);
    known_ = std::move(copy);
  }

  std::map<array_id, placed_array> arrays_;
  std::map<texture_id, std::uint64_t> named_; // values other than the id
  std::shared_ptr<const texture_table> known_ =
      std::make_shared<texture_table>();
};

} // namespace vgpu::device::cpu
