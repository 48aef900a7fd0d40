// How a call that is not supported is answered.
#pragma once

#include <atomic>

namespace vgpu::interposer {

/// Whether a refusal was reported before.
using told_once = std::atomic<bool>;

/// CUDA_ERROR_NOT_SUPPORTED, or what every call returns before cuInit and
/// after the end. The driver's log says which call it was, and why; so does
/// stderr, the first time, if VGPU_LOG is set.
int refuse(const char* symbol, const char* why, told_once& told) noexcept;

} // namespace vgpu::interposer
