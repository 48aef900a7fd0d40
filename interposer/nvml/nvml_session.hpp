// The process's session as this library sees it, through libcuda.so.1.
#pragma once

#include "interposer/nvml/nvml_abi.hpp"
#include "interposer/nvml/nvml_bridge.hpp"

#include <vector>

namespace vgpu::nvml {

using interposer::nvml_device_facts;

/// Serves nvmlInit, which counts its calls. With `may_have_none`
/// (NVML_INIT_FLAG_NO_GPUS) it succeeds without devices too.
code begin(bool may_have_none) noexcept;
/// Serves nvmlShutdown, which reverses one nvmlInit.
code end() noexcept;
bool is_initialized() noexcept;

/// Returns how many devices the session has.
unsigned count() noexcept;
/// Returns the handle of a device by its index, or null where there is none.
device* handle_of(unsigned index) noexcept;
/// Describes a device as it is now. Returns `invalid_argument` where the handle
/// names none.
code facts_of(device* handle, nvml_device_facts& out) noexcept;
/// Lists the processes that use a device now.
code processes_of(device* handle,
                  std::vector<interposer::nvml_process>& out) noexcept;
/// Returns the index of a device. Precondition: the handle is valid.
unsigned index_of(device* handle) noexcept;

/// Calls `body` with the facts of a device.
template <class Body>
code with_device(device* handle, const Body& body) noexcept {
  if (!is_initialized())
    return code::uninitialized;
  nvml_device_facts facts;
  if (auto failed = facts_of(handle, facts); failed != code::success)
    return failed;
  return body(facts);
}

} // namespace vgpu::nvml
