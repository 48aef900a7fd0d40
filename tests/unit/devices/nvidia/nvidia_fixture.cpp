#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

namespace vgpu::test {

const char* fake_driver() noexcept {
  return FAKE_DRIVER;
}

} // namespace vgpu::test
