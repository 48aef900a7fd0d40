// The answer to calls that are not supported.
#pragma once

#include <atomic>

namespace vgpu::interposer {

/// This tells whether a refusal was reported before.
using logged_once = std::atomic<bool>;

/// Returns CUDA_ERROR_NOT_SUPPORTED, or the error of every call before cuInit
/// and after the end. The driver's log names the call and the reason; so does
/// stderr, the first time, if VGPU_LOG is set.
int refuse(const char* symbol, const char* why, logged_once& told) noexcept;

} // namespace vgpu::interposer
