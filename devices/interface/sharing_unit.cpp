#include "devices/interface/sharing_unit.hpp"

#include "schema/base/cuda_fault.hpp"

#include <string>

namespace vgpu::device {

status check_parts(const shared_object& from, std::uint64_t bytes) {
  auto fits = from.words.size() <= shared_object::most &&
              from.words.size() == from.descriptors.size() && bytes != 0 &&
              bytes <= window_bytes;
  auto rest = bytes;
  for (auto part : from.words) {
    fits = fits && part != 0 && part % granule_bytes == 0 && part <= rest;
    rest -= part; // without meaning once `fits` is false
  }
  if (fits && rest == 0)
    return {};
  return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                    "the shared object of the other process is not " +
                        std::to_string(bytes) + " bytes of memory");
}

} // namespace vgpu::device
