// Another process, put off its GPUs as it is and back (the driver's
// cuCheckpointProcess...).
#pragma once

#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// Whether this driver can do it.
bool puts_aside(const driver& api) noexcept;

/// Takes all that the driver has of that process on GPUs to the host, and gives
/// its memory there back; whoever of it calls the driver waits from then on. It
/// may be aside already. After a fault of CUDA_ERROR_NOT_SUPPORTED the process
/// is as before; after any other nobody knows.
status put_aside(const driver& api, int pid);

/// Brings it back from wherever put_aside() was when it ended, or was killed:
/// the driver remembers that, and not who asked.
status bring_back(const driver& api, int pid);

} // namespace vgpu::device::nvidia
