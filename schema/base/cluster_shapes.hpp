// How a launch's grid is cut into clusters of blocks: the rules by which a
// program's driver refuses it at once, and by which a device does (CUDA C++
// Programming Guide, "Thread Block Clusters"; what a driver answered is in
// tests/cuda/faults/cluster_errors.cu).
#pragma once

#include <cstdint>

namespace vgpu {

/// Blocks of a cluster that every device with clusters has, and those that a
/// kernel may be allowed beyond
/// (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED).
inline constexpr std::uint32_t portable_cluster = 8;
inline constexpr std::uint32_t largest_cluster = 16;

/// The most blocks that a kernel's clusters may have; `wide`, where its
/// attribute allows more than the portable size.
constexpr std::uint32_t most_of_cluster(bool wide) noexcept {
  return wide ? largest_cluster : portable_cluster;
}

/// Whether a launch or a kernel says nothing of clusters. `Dim3` has x, y and
/// z.
template <class Dim3>
constexpr bool is_none(const Dim3& x) noexcept {
  return (x.x | x.y | x.z) == 0;
}

/// What is wrong with a launch's clusters; each is
/// CUDA_ERROR_INVALID_CLUSTER_SIZE to a program.
enum class cluster_fault {
  none,
  not_the_required, // the kernel requires others than the launch asks for
  size,             // no blocks, or more than it may have
  grid,             // the grid is not made of them
};

/// The clusters of a launch of `grid` blocks: those that it asks for or, where
/// it asks for none, those that its kernel requires. They are in `out` even
/// where something is wrong with them; is_none() of it without. `most`: how
/// many blocks one may have.
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
  // Each alone first: what is multiplied then is small.
  if (out.x == 0 || out.y == 0 || out.z == 0 || out.x > most || out.y > most ||
      out.z > most || out.x * out.y * out.z > most)
    return cluster_fault::size;
  if (grid.x % out.x != 0 || grid.y % out.y != 0 || grid.z % out.z != 0)
    return cluster_fault::grid;
  return cluster_fault::none;
}

} // namespace vgpu
