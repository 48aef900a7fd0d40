// What a program waits before its vGPU does anything for it.
#pragma once

namespace vgpu::bench {

/// Prints the milliseconds from the first driver call to the end of the first
/// call that went to the worker and back. The exit status.
int print_first_call();

} // namespace vgpu::bench
