// What the caller has mapped, and how much of its quota that takes.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/physical_memory.hpp"

#include <cstdint>
#include <set>

namespace vgpu::device::cpu {

/// The window's granules as the caller sees them: what it unmapped is gone
/// here, though work from before may still use the pages. Physical memory
/// counts against the quota whether or not it is mapped. The caller's thread.
class granule_account {
public:
  explicit granule_account(std::uint64_t quota) : quota_{quota} {}

  /// Changes the quota, in bytes; what is beyond it stays.
  void allow(std::uint64_t quota) noexcept { quota_ = quota; }
  /// Whether so many bytes more are within the quota; `what` names them.
  status check_quota(const char* what, std::uint64_t bytes) const;
  void use(std::uint64_t bytes) noexcept { used_ += bytes; }
  void unuse(std::uint64_t bytes) noexcept { used_ -= bytes; }

  /// Ranges of whole granules; that they are is the caller's to check.
  void insert(device_address first, std::uint64_t bytes);
  void erase(device_address first, std::uint64_t bytes);
  bool contains(device_address granule) const {
    return mapped_.contains(granule);
  }
  /// Whether all that any bytes touch is mapped.
  bool covers(device_address at, std::uint64_t bytes) const;

private:
  std::uint64_t quota_;
  std::uint64_t used_ = 0;
  std::set<device_address> mapped_;
};

} // namespace vgpu::device::cpu
