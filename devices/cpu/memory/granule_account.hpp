// An account of the memory that the caller has mapped, and of its quota.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/physical_memory.hpp"

#include <cstdint>
#include <set>

namespace vgpu::device::cpu {

/// Keeps the window's granules as the caller sees them. An unmapped granule is
/// removed at once, though earlier work may still use its pages. Physical
/// memory counts against the quota whether or not it is mapped. Memory for
/// modules is limited by what allocations leave, but takes no room from later
/// ones: how many granules modules need is known only here, and an allocation
/// for which the caller had room must not fail. Only the caller's thread uses
/// this.
class granule_account {
public:
  /// Makes an empty account with a quota in bytes.
  explicit granule_account(std::uint64_t quota) : quota_{quota} {}

  /// Changes the quota, in bytes. Memory beyond it stays.
  void allow(std::uint64_t quota) noexcept { quota_ = quota; }
  /// Names what memory is for.
  enum class use_of : std::uint8_t { allocations, modules };

  /// Checks that this many further bytes are within the quota. `what` names
  /// them in the fault.
  status check_quota(const char* what, std::uint64_t bytes,
                     use_of by = use_of::allocations) const;
  /// Counts bytes against the quota.
  void use(std::uint64_t bytes, use_of by = use_of::allocations) noexcept {
    used_of(by) += bytes;
  }
  /// Stops counting bytes.
  void unuse(std::uint64_t bytes, use_of by = use_of::allocations) noexcept {
    used_of(by) -= bytes;
  }

  /// Adds a range of whole granules. The caller has checked that it is one.
  void insert(device_address first, std::uint64_t bytes);
  /// Removes a range of whole granules.
  void erase(device_address first, std::uint64_t bytes);
  /// Tells whether the caller has mapped this granule.
  bool contains(device_address granule) const {
    return mapped_.contains(granule);
  }
  /// Tells whether every granule that this range touches is mapped.
  bool covers(device_address at, std::uint64_t bytes) const;

private:
  std::uint64_t& used_of(use_of by) noexcept {
    return by == use_of::modules ? of_modules_ : used_;
  }

  std::uint64_t quota_;
  std::uint64_t used_ = 0;
  std::uint64_t of_modules_ = 0;
  std::set<device_address> mapped_;
};

} // namespace vgpu::device::cpu
