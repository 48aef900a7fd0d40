// NVIDIA's CUPTI: where it is looked for, and its functions that we call.
#pragma once

#include "devices/nvidia/profiler/activity_types.hpp"
#include "schema/base/fault.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vgpu::device::nvidia {

// These are all functions of CUPTI that we use, with their signatures.
// clang-format off
#define VGPU_CUPTI_CALLS(call)                                                \
  call(cuptiSubscribe, activity::subscriber*, activity::call_told, void*)     \
  call(cuptiEnableCallback, std::uint32_t, activity::subscriber,              \
       std::uint32_t, std::uint32_t)                                          \
  call(cuptiUnsubscribe, activity::subscriber)                                \
  call(cuptiActivityRegisterTimestampCallback, activity::clock_read)          \
  call(cuptiActivityRegisterCallbacks, activity::buffer_requested,            \
       activity::buffer_completed)                                            \
  call(cuptiActivityEnable, std::uint32_t)                                    \
  call(cuptiActivityDisable, std::uint32_t)                                   \
  call(cuptiActivityFlushAll, std::uint32_t)                                  \
  call(cuptiActivityGetNextRecord, std::uint8_t*, std::size_t, void**)
// clang-format on

/// Holds CUPTI's functions by their names. An opened library stays in the
/// process.
struct cupti_library {
#define VGPU_CUPTI_MEMBER(name, ...)                                           \
  activity::code (*name)(__VA_ARGS__) = nullptr;
  VGPU_CUPTI_CALLS(VGPU_CUPTI_MEMBER)
#undef VGPU_CUPTI_MEMBER

  std::string path;
};

/// Shares an opened library.
using cupti_ptr = std::shared_ptr<const cupti_library>;

/// Returns the paths of files at which CUPTI may lie, the best first: the
/// version of the driver, such as 13000, is preferred. Where
/// $VGPU_NVIDIA_CUPTI is set it is the only one, and `off` means none.
std::vector<std::string> cupti_places(int driver_version);

/// Opens the library at this path. Fails where it is our own libcupti, and
/// where it lacks a function.
result<cupti_ptr> open_cupti(const std::string& path);

} // namespace vgpu::device::nvidia
