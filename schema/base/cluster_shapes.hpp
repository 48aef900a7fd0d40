// How a launch's grid is divided into clusters of blocks. A program's driver
// refuses a launch by these rules at once, and a device does by the same (CUDA
// C++ Programming Guide, "Thread Block Clusters";
// tests/cuda/faults/cluster_errors.cu has a driver's answers).
#pragma once

#include <cstdint>

namespace vgpu {

/// Gives the largest number of blocks in a cluster on every device with
/// clusters.
inline constexpr std::uint32_t portable_cluster = 8;
/// Gives the largest number of blocks that a kernel may be allowed
/// (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED).
inline constexpr std::uint32_t largest_cluster = 16;

/// Returns the largest number of blocks in a kernel's clusters. `wide` means
/// that its attribute allows more than the portable size.
constexpr std::uint32_t most_of_cluster(bool wide) noexcept {
  return wide ? largest_cluster : portable_cluster;
}

/// Returns whether a launch or a kernel specifies no clusters. `Dim3` has x, y
/// and z.
template <class Dim3>
constexpr bool is_none(const Dim3& x) noexcept {
  return (x.x | x.y | x.z) == 0;
}

/// Says what is wrong with a launch's clusters. The program gets
/// CUDA_ERROR_INVALID_CLUSTER_SIZE for each.
enum class cluster_fault {
  none,
  /// The kernel requires other clusters than the launch requests.
  not_the_required,
  /// The cluster has no blocks, or too many.
  size,
  /// The grid is not a multiple of the cluster.
  grid,
};

/// Determines the clusters of a launch of `grid` blocks: the requested ones or,
/// if none are requested, those that the kernel requires. It sets `out` even
/// where they are wrong, and to zero where there are none. `most` is the
/// largest number of blocks in a cluster.
template <class Dim3>
constexpr cluster_fault
cut_into_clusters(const Dim3& grid, const Dim3& asked, const Dim3& required,
                  std::uint32_t most, Dim3& out) noexcept {
  out = is_none(asked) ? required : asked;
  if (is_none(out)) [[likely]]
    return cluster_fault::none;
  if (!is_none(required) &&
      (required.x != out.x || required.y != out.y || required.z != out.z))
    return cluster_fault::not_the_required;
  // Each dimension is checked first, so that the product cannot overflow.
  if (out.x == 0 || out.y == 0 || out.z == 0 || out.x > most || out.y > most ||
      out.z > most || out.x * out.y * out.z > most)
    return cluster_fault::size;
  if (grid.x % out.x != 0 || grid.y % out.y != 0 || grid.z % out.z != 0)
    return cluster_fault::grid;
  return cluster_fault::none;
}

} // namespace vgpu
