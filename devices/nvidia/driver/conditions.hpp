// Words that kernels set by cudaGraphSetConditional.
#pragma once

#include "devices/interface/device.hpp"
#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/condition_handles.hpp"
#include "schema/base/physical_memory.hpp"
#include "schema/log/session_area.hpp"

namespace vgpu::device::nvidia {

/// Kernels set words of this process's memory, at addresses that the driver's
/// own function comes to (README.md, "Conditions"). The program has them in
/// device memory: what is filled there goes from there to these, and what is
/// read there comes from these first. One thread, which has the context.
class conditions {
public:
  explicit conditions(driver_ptr api);

  /// Loads the kernel that looks whether the driver does as it is known to, on
  /// devices of which something is known. No program's module was loaded yet.
  void open(const properties& of);
  /// See condition_unit. Waits for a kernel of its own.
  status set(memory_id memory, device_address address, device_address place);
  /// What the program had them in goes.
  void forget(memory_id memory) noexcept;

  /// Where kernels set what the program has at `x`; 0 if it is no such word.
  device_address place_of(device_address x) const noexcept {
    return x - address_ < bytes_ ? x - address_ + place_ : 0;
  }

private:
  status show(device_address place);
  status look();

  driver_ptr api_;
  CUfunction kernel_ = nullptr;
  memory_id memory_{};
  device_address address_ = 0;
  std::uint64_t bytes_ = 0; // 0: the program has none
  device_address place_ = 0;
  mapping words_;
};

} // namespace vgpu::device::nvidia
