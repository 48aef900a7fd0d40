// The answer to calls that are not supported.
#pragma once

#include <atomic>

namespace vgpu::interposer {

/// Tells whether a refusal was reported before.
using logged_once = std::atomic<bool>;

/// Returns CUDA_ERROR_NOT_SUPPORTED, or before cuInit and at exit the error of
/// that phase. Writes the call and the reason to the driver's log and, if
/// VGPU_LOG is set, the first time to stderr too.
int refuse(const char* symbol, const char* why, logged_once& logged) noexcept;

} // namespace vgpu::interposer
