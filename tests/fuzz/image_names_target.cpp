// Finds the names in an image that goes to the driver.
#include "devices/nvidia/driver/image_names.hpp"
#include "fuzz_target.hpp"

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)device::nvidia::names_of(test::as_bytes(data, size), 90);
  return 0;
}
