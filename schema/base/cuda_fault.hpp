// The CUDA driver's side of a fault. Device backends, the execution of calls
// and the interposer use it; everything else speaks of kinds.
#pragma once

#include "schema/base/fault.hpp"

#include <cuda.h>

namespace vgpu {

/// Makes the fault by which a program sees exactly this code of the CUDA
/// driver. `code` is an error.
inline fault cuda_fault(CUresult code, std::string what) {
  return {fault_kind::device, std::move(what),
          static_cast<std::uint32_t>(code)};
}

/// Returns the code that a peer sent, or CUDA_ERROR_UNKNOWN where it is not
/// one.
constexpr CUresult to_result(std::uint32_t code) noexcept {
  return code <= CUDA_ERROR_UNKNOWN ? static_cast<CUresult>(code)
                                    : CUDA_ERROR_UNKNOWN;
}

/// Returns the code by which a program learns of a fault of this kind. That of
/// `device` stands for a driver that named none.
constexpr CUresult cuda_code(fault_kind x) noexcept {
  switch (x) {
  case fault_kind::usage:
  case fault_kind::corrupt:
    return CUDA_ERROR_INVALID_VALUE;
  case fault_kind::missing:
    return CUDA_ERROR_INVALID_HANDLE;
  case fault_kind::refused:
    return CUDA_ERROR_NOT_PERMITTED;
  case fault_kind::not_ready:
    return CUDA_ERROR_NOT_READY;
  case fault_kind::exhausted:
    return CUDA_ERROR_OUT_OF_MEMORY;
  case fault_kind::no_device:
    return CUDA_ERROR_NO_DEVICE;
  case fault_kind::unsupported:
    return CUDA_ERROR_NOT_SUPPORTED;
  case fault_kind::other_version:
    return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  case fault_kind::unreachable:
    return CUDA_ERROR_SYSTEM_NOT_READY;
  case fault_kind::lost:
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  case fault_kind::system:
    return CUDA_ERROR_OPERATING_SYSTEM;
  case fault_kind::device:
  case fault_kind::internal:
    break;
  }
  return CUDA_ERROR_UNKNOWN;
}

/// Returns the code by which a program learns of the fault, which is an error.
inline CUresult cuda_code(const fault& x) noexcept {
  return x.kind == fault_kind::device && x.driver_code != CUDA_SUCCESS
             ? to_result(x.driver_code)
             : cuda_code(x.kind);
}

/// Returns CUDA_SUCCESS, or the code of the fault.
inline CUresult cuda_code(const status& x) noexcept {
  return x ? CUDA_SUCCESS : cuda_code(x.why());
}

/// Returns the kind of fault that a peer's code stands for, which is `refused`
/// for a code of no kind.
constexpr fault_kind kind_of(CUresult code) noexcept {
  for (std::size_t i = 0; i < fault_kinds; ++i)
    if (auto x = static_cast<fault_kind>(i); cuda_code(x) == code)
      return x;
  return fault_kind::refused;
}

} // namespace vgpu
