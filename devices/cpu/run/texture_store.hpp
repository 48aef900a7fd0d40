// The arrays, textures and surfaces of a session.
#pragma once

#include "devices/cpu/run/texture_sampler.hpp"
#include "schema/base/fault.hpp"

#include <map>
#include <memory>

namespace vgpu::device::cpu {

/// For one thread; what known() gives may be read by any.
class texture_store {
public:
  /// An array's elements lie at `at`, as layout_of() says.
  status add_array(array_id id, const array_shape& shape, device_address at);
  status remove_array(array_id id);

  /// Its value is its id, which the program's side chose.
  result<std::uint64_t> add(texture_id id, const texture_spec& what);
  /// Kernels find the object by this value too: it was given by a device of
  /// another kind. CUDA_ERROR_INVALID_HANDLE where another object has it.
  status name(texture_id id, std::uint64_t value);
  status remove(texture_id id);

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
  std::map<texture_id, std::uint64_t> named_; // the value, where it is another
  std::shared_ptr<const texture_table> known_ =
      std::make_shared<texture_table>();
};

} // namespace vgpu::device::cpu
