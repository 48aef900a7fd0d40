// Whether a launch is one that the device can run.
#pragma once

#include "devices/cpu/run/module_store.hpp"
#include "devices/interface/device.hpp"

namespace vgpu::device::cpu {

/// How a launch is cut into clusters.
struct cluster_shape {
  dim3 blocks;        // of one cluster
  bool asked = false; // by the launch or by the kernel: %is_explicit_cluster
};

/// The launch's own clusters or those that its kernel requires.
/// CUDA_ERROR_INVALID_CLUSTER_SIZE where the two differ, where the grid is no
/// multiple of them, and where they are larger than the device or the kernel
/// has them (CUDA C++ Programming Guide, "Thread Block Clusters").
result<cluster_shape> clusters_of(const launch& x, const loaded_kernel& k);

/// How many clusters of a launch run at once; 0 where it is none of clusters,
/// or where a block is too large. Here clusters need no group of
/// multiprocessors: each runs on one.
result<std::uint32_t> active_clusters(const launch& x, const loaded_kernel& k,
                                      int multiprocessors);

/// What cuLaunchKernel refuses at once: shapes and sizes beyond the device's or
/// the kernel's own limits, a short parameter block, a cooperative grid that
/// does not fit all at once.
status check_launch(const launch& x, const loaded_kernel& k,
                    unsigned multiprocessors);

/// Whether a kernel's attribute may have this value.
status check_attribute(const properties& of, const kernel_info& kernel,
                       int attribute, int value);

} // namespace vgpu::device::cpu
