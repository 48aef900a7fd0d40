// The time until a program's vGPU has executed its first call.
#pragma once

namespace vgpu::bench {

/// Prints the milliseconds from the first driver call to the end of the first
/// call that the worker answered. Returns the exit status.
int print_first_call();

} // namespace vgpu::bench
