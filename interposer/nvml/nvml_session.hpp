// The process's session, as this library sees it: through libcuda.so.1.
#pragma once

#include "interposer/nvml/nvml_abi.hpp"
#include "interposer/nvml/nvml_bridge.hpp"

#include <vector>

namespace vgpu::nvml {

using interposer::nvml_device_facts;

/// nvmlInit: counted, as nvmlShutdown is. `may_have_none`
/// (NVML_INIT_FLAG_NO_GPUS): success without devices too.
code begin(bool may_have_none) noexcept;
code end() noexcept;
bool is_initialized() noexcept;

/// How many devices the session has.
unsigned count() noexcept;
/// Handles are made of indices; null for one that there is not.
device* handle_of(unsigned index) noexcept;
/// What is known of it now. `invalid_argument` for what is no handle.
code facts_of(device* handle, nvml_device_facts& out) noexcept;
/// Those on a device now.
code processes_of(device* handle,
                  std::vector<interposer::nvml_process>& out) noexcept;
/// Of a valid handle.
unsigned index_of(device* handle) noexcept;

/// With the facts of a device.
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
