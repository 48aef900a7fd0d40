#include "devices/cpu/memory/granule_account.hpp"

#include "schema/base/cuda_fault.hpp"

#include <string>

namespace vgpu::device::cpu {

status granule_account::check_quota(const char* what, std::uint64_t bytes,
                                    use_of by) const {
  auto used = used_ + (by == use_of::modules ? of_modules_ : 0);
  if (used <= quota_ && bytes <= quota_ - used)
    return {};
  return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                    std::string{what} + ": " + std::to_string(bytes) +
                        " bytes would exceed the quota of " +
                        std::to_string(quota_) + ", of which " +
                        std::to_string(used) + " are in use");
}

void granule_account::insert(device_address first, std::uint64_t bytes) {
  for (auto g = first; g != first + bytes; g += granule_bytes)
    mapped_.insert(g);
}

void granule_account::erase(device_address first, std::uint64_t bytes) {
  for (auto g = first; g != first + bytes; g += granule_bytes)
    mapped_.erase(g);
}

bool granule_account::covers(device_address at, std::uint64_t bytes) const {
  for (auto g = at / granule_bytes * granule_bytes; g < at + bytes;
       g += granule_bytes)
    if (!mapped_.contains(g))
      return false;
  return true;
}

} // namespace vgpu::device::cpu
