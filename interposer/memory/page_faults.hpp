// Faults of memory that a thread of this library serves, by userfaultfd(2).
#pragma once

#include "schema/base/ids.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <optional>

namespace vgpu::interposer {

/// Closes ranges of memory to the program, and tells when the program or one of
/// its system calls touches a closed page. Who touches a page waits until it is
/// open. The memory is a file that is mapped shared, so closing a page drops
/// the program's mapping of it and not its bytes. It is a resource, one for all
/// managed memory. Thread-safe.
class page_faults {
public:
  /// Describes a touch.
  struct touch {
    device_address at = 0;
    bool writes = false;
  };

  /// Opens the best service up to `most` that the kernel permits this process.
  /// Returns nothing where only the signal is left.
  static std::optional<page_faults> open(fault_service most);

  fault_service service() const noexcept { return service_; }

  /// Starts to report touches of closed pages in a range of whole mappings. Its
  /// pages stay as they are.
  bool watch(device_address at, std::uint64_t bytes) noexcept;
  /// Closes a watched range. No thread writes to it any more when this returns.
  bool close(device_address at, std::uint64_t bytes) noexcept;
  /// Opens a watched range, for reading alone or for writing too, and lets
  /// those continue that wait for it. Pages that are open stay so.
  /// Precondition: the file holds its pages.
  bool open(device_address at, std::uint64_t bytes, bool for_writes) noexcept;
  /// Lets those who wait for this range try again.
  void wake(device_address at, std::uint64_t bytes) noexcept;

  /// Waits for the next touch. Returns nothing where the descriptor is no
  /// longer this object's, because the program has closed it.
  std::optional<touch> next() noexcept;

private:
  page_faults(unique_fd fd, fault_service service)
      : fd_(std::move(fd)), service_(service) {}
  bool agree() noexcept;
  bool can_protect() noexcept;

  unique_fd fd_;
  fault_service service_;
};

/// Returns the best service that the program's environment permits
/// (VGPU_MANAGED_FAULTS): `kernel` unless it says `program` or `signal`.
fault_service permitted_fault_service() noexcept;

} // namespace vgpu::interposer
