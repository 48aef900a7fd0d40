// A program that does one thing for some time: what its protection costs it is
// seen in how often it does it.
#pragma once

namespace vgpu::bench {

/// `launch`: launches, with a synchronisation after each thousand; `copy`: 8
/// MiB to the device and back. For so many slices of two seconds, with
/// `mebibytes` of device memory besides, which is written once. Prints as a
/// JSON list how many launches, or bytes, there were a second in each slice.
/// The exit status.
int run_steadily(const char* what, int slices, unsigned mebibytes);

} // namespace vgpu::bench
