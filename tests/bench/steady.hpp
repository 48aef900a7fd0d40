// A program that repeats one operation for some time. The number of operations
// shows the cost of its protection.
#pragma once

namespace vgpu::bench {

/// Repeats an operation for so many slices of two seconds: `launch` launches,
/// with a synchronisation after each thousand, and `copy` copies 8 MiB to the
/// device and back. It has `mebibytes` of further device memory, written once.
/// Prints the launches or bytes per second of each slice as a JSON list.
/// Returns the exit status.
int run_steadily(const char* what, int slices, unsigned mebibytes);

} // namespace vgpu::bench
