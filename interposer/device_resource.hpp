// What of a device contexts may be given a part of.
#pragma once

#include "interposer/driver_api.hpp"
#include "interposer/guest_channel.hpp"

namespace vgpu::interposer {

/// All that a device has of a resource, as cuDeviceGetDevResource and
/// cuCtxGetDevResource tell it (CUDA driver API, "Green Contexts"): a context
/// that is not a green one has the whole. CUDA_ERROR_INVALID_RESOURCE_TYPE for
/// what is not multiprocessors, CUDA_ERROR_INVALID_VALUE without a place for
/// it.
CUresult whole_resource(const device_facts& device, CUdevResourceType type,
                        CUdevResource* out) noexcept;

} // namespace vgpu::interposer
