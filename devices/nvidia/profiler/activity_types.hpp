// The part of CUPTI's binary interface by which a worker learns when a GPU
// executed its work. It is the same in CUPTI 12 and 13.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace vgpu::device::nvidia::activity {

/// Is a CUptiResult. Any other value than `success` is an error.
using code = int;
inline constexpr code success = 0;

/// Mirrors CUpti_ActivityKind, for work of a GPU.
enum kind : std::uint32_t {
  copies = 1,
  fills = 2,
  kernels = 10, // CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
  copies_between_devices = 22
};
inline constexpr kind kinds[] = {kernels, copies, fills,
                                 copies_between_devices};

/// Holds the numbers (CUpti_driver_api_trace_cbid) of the driver's calls that
/// enqueue work of these kinds.
inline constexpr std::uint32_t calls[] = {
    307, // cuLaunchKernel
    652, // cuLaunchKernelEx
    306, // cuMemcpyAsync
    277, // cuMemcpyHtoDAsync_v2
    289, // cuMemcpy2DAsync_v2
    291, // cuMemcpy3DAsync_v2
    216, // cuMemsetD8Async
    218, // cuMemsetD16Async
    220, // cuMemsetD32Async
    222, // cuMemsetD2D8Async
    224, // cuMemsetD2D16Async
    226, // cuMemsetD2D32Async
};
inline constexpr std::uint32_t driver_calls = 1; // a CUpti_CallbackDomain

/// Mirrors CUpti_CallbackData.
struct call_data {
  std::uint32_t site; // 0 before the call, 1 after it
  const char* name;
  const void* arguments;
  const void* outcome; // points to a CUresult, after the call
  const char* symbol;
  CUcontext context;
  std::uint32_t context_number;
  std::uint64_t* correlation_data;
  std::uint32_t correlation;
};
static_assert(sizeof(call_data) == 72);

using subscriber = void*;
using call_told = void (*)(void* user, std::uint32_t domain, std::uint32_t call,
                           const call_data* data);
using buffer_requested = void (*)(std::uint8_t** buffer, std::size_t* bytes,
                                  std::size_t* most_records);
using buffer_completed = void (*)(CUcontext context, std::uint32_t stream,
                                  std::uint8_t* buffer, std::size_t bytes,
                                  std::size_t valid);
using clock_read = std::uint64_t (*)();
inline constexpr std::uint32_t forced = 1; // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED

/// Holds the parts of a record that all kinds have. Times are nanoseconds by
/// the registered clock.
struct record {
  std::uint64_t began = 0;
  std::uint64_t ended = 0;
  std::uint32_t correlation = 0;

  /// Tells whether there are times. CUPTI makes records without them, where it
  /// had no room on the device.
  bool has_times() const noexcept { return began != 0 && ended >= began; }
};

inline constexpr std::size_t offset_of_began = 16;
inline constexpr std::size_t offset_of_ended = 24;
/// Returns where a record of this kind has its correlation, or nothing where
/// the kind is none of `kinds`. Later versions of a record only append.
constexpr std::optional<std::size_t>
offset_of_correlation(std::uint32_t of) noexcept {
  switch (of) {
  case kernels:
    return 92;
  case copies:
  case fills:
    return 44;
  case copies_between_devices:
    return 60;
  }
  return std::nullopt;
}

/// Reads CUPTI's record. Returns nothing for one of another kind.
inline std::optional<record> read_record(const void* at) noexcept {
  const auto* bytes = static_cast<const std::byte*>(at);
  auto get = [bytes](auto& to, std::size_t offset) {
    std::memcpy(&to, bytes + offset, sizeof to);
  };
  std::uint32_t which = 0;
  get(which, 0);
  auto offset = offset_of_correlation(which);
  if (!offset)
    return std::nullopt;
  record out;
  get(out.began, offset_of_began);
  get(out.ended, offset_of_ended);
  get(out.correlation, *offset);
  return out;
}

} // namespace vgpu::device::nvidia::activity
