// Waiting for a device, on the thread that drives it: only where nothing else
// is to be done meanwhile.
#pragma once

#include "devices/interface/device.hpp"
#include "schema/base/fault.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace vgpu {

/// Waits for all work enqueued so far, of all streams or of one. The error in
/// which it ended, or CUDA_ERROR_LAUNCH_TIMEOUT, naming `what` was waited for.
status wait_for(device::device& on, const std::string& what,
                std::chrono::milliseconds patience = std::chrono::seconds{60},
                std::optional<stream_id> of = std::nullopt);

} // namespace vgpu
