// Graph conditions, which kernels set with cudaGraphSetConditional.
#pragma once

#include "devices/interface/device.hpp"
#include "devices/nvidia/driver/driver.hpp"
#include "schema/base/condition_handles.hpp"
#include "schema/base/physical_memory.hpp"
#include "schema/log/session_area.hpp"

namespace vgpu::device::nvidia {

/// Lets kernels set the session's conditions. Kernels write words in this
/// process's memory, at addresses that the driver's own function computes
/// (docs/design/nvidia-device.md, "Conditions in graphs"). The program keeps
/// its conditions in device memory, so a fill of that memory is copied to these
/// words, and a read of it first copies from them. One thread, with the context
/// current, makes all calls.
class conditions {
public:
  explicit conditions(driver_ptr api);

  /// Loads the kernel that checks whether the driver computes the addresses as
  /// expected. Does nothing on devices and driver versions where that is
  /// unknown. The caller does this before it loads the program's first module.
  void open(const properties& of);
  /// Implements condition_unit::set_conditions_in(). Runs a kernel and waits
  /// for it.
  status set(memory_id memory, device_address address, device_address place);
  /// Forgets the program's conditions if they lie in this memory.
  void forget(memory_id memory) noexcept;

  /// Returns the address of the word that kernels set for the program's word at
  /// `x`, or 0 where `x` is no such word.
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
