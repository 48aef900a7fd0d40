// Checkpoint and restore of a whole other process by the driver (CUDA driver
// API, "CUDA Checkpointing": cuCheckpointProcess...).
#pragma once

#include "devices/nvidia/driver/driver.hpp"

namespace vgpu::device::nvidia {

/// Tells whether this driver can checkpoint a process.
bool can_checkpoint(const driver& api) noexcept;

/// Copies all that the driver holds for the process on GPUs to the host, and
/// frees its GPU memory. From then on a thread of the process that calls the
/// driver waits. The process may already be checkpointed. After
/// CUDA_ERROR_NOT_SUPPORTED the process is as before; after any other fault its
/// state is unknown.
status checkpoint_process(const driver& api, int pid);

/// Restores the process, whichever step checkpoint_process() had reached when
/// it ended or was killed. The driver remembers that step, and any process may
/// ask for the restore.
status restore_process(const driver& api, int pid);

} // namespace vgpu::device::nvidia
