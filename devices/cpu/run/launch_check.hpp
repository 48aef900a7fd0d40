// The checks of a launch before it is enqueued.
#pragma once

#include "devices/cpu/run/module_store.hpp"
#include "devices/interface/device.hpp"

namespace vgpu::device::cpu {

/// Describes the clusters of a launch.
struct cluster_shape {
  dim3 blocks;        // in one cluster
  bool asked = false; // by the launch or the kernel
};

/// Returns the clusters that the launch asks for or its kernel requires.
/// Returns CUDA_ERROR_INVALID_CLUSTER_SIZE where the two differ, where the grid
/// is no multiple of them, and where they exceed the limits of the device or
/// the kernel (CUDA C++ Programming Guide, "Thread Block Clusters").
result<cluster_shape> clusters_of(const launch& x, const loaded_kernel& k);

/// Returns how many clusters of a launch can run at the same time, or 0 for a
/// launch without clusters or with blocks that are too large. Here a cluster
/// needs one multiprocessor and no group of them.
result<std::uint32_t> active_clusters(const launch& x, const loaded_kernel& k,
                                      int multiprocessors);

/// Returns a fault where cuLaunchKernel refuses a launch at once: shapes and
/// sizes beyond the limits of the device or the kernel, a parameter block that
/// is too short, and a cooperative grid whose blocks cannot all be resident.
status check_launch(const launch& x, const loaded_kernel& k,
                    unsigned multiprocessors);

/// Checks that a kernel's attribute may have this value.
status check_attribute(const properties& of, const kernel_info& kernel,
                       int attribute, int value);

} // namespace vgpu::device::cpu
