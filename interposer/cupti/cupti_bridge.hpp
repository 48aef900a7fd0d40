// The interface of libcuda.so.1 for libcupti.so, which gets it from
// cuGetExportTable, as libnvidia-ml.so.1 gets its own.
#pragma once

#include "interposer/cupti/activity.hpp"

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace vgpu::interposer {

inline constexpr std::array<std::uint8_t, 16> cupti_bridge_id = {
    0x76, 0x67, 0x70, 0x75, 0x2d, 0x63, 0x75, 0x70,
    0x74, 0x69, 0x2d, 0x62, 0x72, 0x64, 0x67, 0x31};

/// Holds functions that are called as the program's calls begin and end, on
/// their threads. They call no entry point of the driver.
struct cupti_listener {
  void (*begins)(activity* x);
  void (*ends)(const activity* x);
};

/// Holds the functions as an export table, whose first slot is its size in
/// bytes.
struct cupti_bridge {
  std::size_t bytes;
  /// Gathers activities from now on, or from cuInit on, or no more.
  CUresult (*gather)(unsigned on);
  /// Calls `each` with each activity that is done, and forgets it.
  CUresult (*take)(void (*each)(void* user, const activity* x), void* user);
  /// Returns how many activities were dropped since the last call.
  std::uint64_t (*take_dropped)();
  /// Returns how many activities wait to be taken.
  std::size_t (*waiting)();
  /// Sets the listener, which lives as long as the process, or none.
  CUresult (*listen)(const cupti_listener* to);
  /// Gets the number and the device of a context, or of the current one where
  /// the handle is null.
  CUresult (*context)(CUcontext handle, std::uint32_t* id,
                      std::uint32_t* device);
  /// Gets the number by which activities name a stream.
  CUresult (*stream)(CUcontext in, CUstream handle, unsigned per_thread,
                     std::uint32_t* id);
};

/// Returns the table. Its functions require that the driver's state is made.
const cupti_bridge& cupti_bridge_table() noexcept;

} // namespace vgpu::interposer
