#include "devices/cpu/run/launch_check.hpp"

#include "devices/cpu/run/block_limits.hpp"
#include "schema/base/cluster_shapes.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <string>

namespace vgpu::device::cpu {

namespace {

fault invalid(std::string what) {
  return cuda_fault(CUDA_ERROR_INVALID_VALUE, std::move(what));
}

/// Returns how many blocks of a launch fit on a multiprocessor.
int blocks_that_fit(const launch& x, const loaded_kernel& k) {
  auto of = [&](int key) {
    return static_cast<std::uint32_t>(k.info.attributes.at(key));
  };
  auto threads = std::uint64_t{x.block.x} * x.block.y * x.block.z;
  if (threads > of(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
    return 0;
  return blocks_per_multiprocessor(
      {static_cast<std::uint32_t>(threads), of(CU_FUNC_ATTRIBUTE_NUM_REGS),
       std::uint64_t{x.dynamic_shared} +
           of(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)});
}

/// Checks that all blocks can be resident at once, because they wait for each
/// other.
status check_cooperative(const launch& x, const loaded_kernel& k,
                         unsigned multiprocessors) {
  auto room =
      static_cast<std::uint64_t>(blocks_that_fit(x, k)) * multiprocessors;
  auto blocks = std::uint64_t{x.grid.x} * x.grid.y * x.grid.z;
  if (blocks > room)
    return cuda_fault(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                      "kernel " + k.info.name + ": " + std::to_string(blocks) +
                          " blocks of a cooperative launch do not fit the "
                          "device, which holds " +
                          std::to_string(room));
  return {};
}

std::string text_of(const dim3& x) {
  return std::to_string(x.x) + " x " + std::to_string(x.y) + " x " +
         std::to_string(x.z);
}

dim3 required_cluster(const loaded_kernel& k) {
  auto of = [&](int key) {
    return static_cast<std::uint32_t>(k.info.attributes.at(key));
  };
  return {of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
          of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
          of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
}

} // namespace

result<cluster_shape> clusters_of(const launch& x, const loaded_kernel& k) {
  auto bad = [&](std::string what) {
    return cuda_fault(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                      "kernel " + k.info.name + ": " + std::move(what));
  };
  auto required = required_cluster(k);
  auto most = most_of_cluster(
      k.info.attributes.at(
          CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0);
  if (auto own = k.what->max_cluster_rank; own != 0)
    most = std::min(most, own);
  dim3 c;
  switch (cut_into_clusters(x.grid, x.cluster, required, most, c)) {
  case cluster_fault::none:
    return is_none(c) ? cluster_shape{} : cluster_shape{c, true};
  case cluster_fault::not_the_required:
    return bad("it requires clusters of " + text_of(required) +
               " blocks, and is launched with " + text_of(x.cluster));
  case cluster_fault::size:
    return bad("clusters of " + text_of(c) + " blocks; it may have up to " +
               std::to_string(most));
  case cluster_fault::grid:
    break;
  }
  return bad("a grid of " + text_of(x.grid) +
             " blocks is not made of clusters of " + text_of(c));
}

result<std::uint32_t> active_clusters(const launch& x, const loaded_kernel& k,
                                      int multiprocessors) {
  auto& wanted = x.cluster;
  if (std::uint64_t{wanted.x} * wanted.y * wanted.z > largest_cluster)
    return 0U;
  auto clusters = clusters_of(x, k);
  if (!clusters)
    return clusters.why();
  auto blocks = blocks_that_fit(x, k);
  if (!clusters->asked || blocks == 0)
    return 0U;
  auto& c = clusters->blocks;
  auto each = std::max(1, blocks / static_cast<int>(c.x * c.y * c.z));
  return static_cast<std::uint32_t>(multiprocessors * each);
}

status check_launch(const launch& x, const loaded_kernel& k,
                    unsigned multiprocessors) {
  auto name = "kernel " + k.info.name + ": ";
  auto& a = k.info.attributes;
  auto threads = std::uint64_t{x.block.x} * x.block.y * x.block.z;
  if (threads == 0 || x.block.x > 1024 || x.block.y > 1024 || x.block.z > 64)
    return invalid(name + "the block dimensions are out of range");
  auto most =
      static_cast<std::uint64_t>(a.at(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (threads > most)
    return invalid(name + std::to_string(threads) +
                   " threads in a block exceed the limit of " +
                   std::to_string(most));
  auto& limit = k.what->block_limit;
  if (k.what->block_exact &&
      (x.block.x != limit[0] || x.block.y != limit[1] || x.block.z != limit[2]))
    return invalid(name + "it requires another block shape (.reqntid)");
  if (x.grid.x == 0 || x.grid.y == 0 || x.grid.z == 0 ||
      x.grid.x > 2147483647u || x.grid.y > 65535 || x.grid.z > 65535)
    return invalid(name + "the grid dimensions are out of range");
  if (x.dynamic_shared > static_cast<std::uint32_t>(a.at(
                             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)))
    return invalid(
        name + std::to_string(x.dynamic_shared) +
        " bytes of dynamic shared memory are more than " +
        std::to_string(a.at(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)) +
        "; raise the kernel's limit first (cuFuncSetAttribute)");
  if (x.parameters.size() < k.what->kernel_parameter_bytes)
    return invalid(name + "its parameters take " +
                   std::to_string(k.what->kernel_parameter_bytes) +
                   " bytes, not " + std::to_string(x.parameters.size()));
  return x.cooperative ? check_cooperative(x, k, multiprocessors) : status{};
}

status check_attribute(const properties& of, const kernel_info& kernel,
                       int attribute, int value) {
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
    auto most = of.attributes.at(
                    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
                kernel.attributes.at(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    if (value < 0 || value > most)
      return invalid("kernel " + kernel.name + ": " + std::to_string(value) +
                     " bytes of dynamic shared memory are more than " +
                     std::to_string(most));
    return {};
  }
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    if (value < -1 || value > 100)
      return invalid("a carveout must be -1 or 0 to 100 percent");
    return {};
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    return {};
  default:
    return invalid("function attribute " + std::to_string(attribute) +
                   " cannot be set");
  }
}

} // namespace vgpu::device::cpu
