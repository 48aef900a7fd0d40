// Waiting for a device on the thread that drives it, which can do nothing else
// meanwhile.
#pragma once

#include "devices/interface/device.hpp"
#include "schema/base/fault.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace vgpu {

/// Waits for all work enqueued so far, on all streams or on one. Returns the
/// error in which the work ended, or CUDA_ERROR_LAUNCH_TIMEOUT after
/// `patience`. `what` names the work in the error text.
status wait_for(device::device& on, const std::string& what,
                std::chrono::milliseconds patience = std::chrono::seconds{60},
                std::optional<stream_id> of = std::nullopt);

} // namespace vgpu
