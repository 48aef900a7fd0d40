#include "interposer/api/driver_state.hpp"

#include <new>

namespace vgpu::interposer {

bool make_driver_state() noexcept {
  try {
    static auto& only = *new driver_state;
    (void)only;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

} // namespace vgpu::interposer
