// Entry points for occupancy: how many blocks and clusters of a kernel a device
// holds at one time.
#include "interposer/api/entry.hpp"

#include "interposer/code/launch.hpp"
#include "interposer/code/occupancy.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/cluster_shapes.hpp"

using namespace vgpu::interposer;

namespace {

template <class Body>
CUresult with_function(CUfunction handle, const Body& body) noexcept {
  return in_context([&](context& x) -> CUresult {
    auto why = CUDA_SUCCESS;
    auto* f = find_function(handle, x, why);
    return f == nullptr ? why : body(*f);
  });
}

CUresult count_blocks(int* out, CUfunction handle, int threads,
                      std::size_t shared) noexcept {
  return with_function(handle, [&](function& f) {
    if (out == nullptr || threads <= 0)
      return CUDA_ERROR_INVALID_VALUE;
    *out = active_blocks(f, threads, shared);
    return CUDA_SUCCESS;
  });
}

CUresult choose_block(int* grid, int* block, CUfunction handle,
                      CUoccupancyB2DSize shared_of, std::size_t shared,
                      int limit) noexcept {
  return with_function(handle, [&](function& f) {
    if (grid == nullptr || block == nullptr || limit < 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto best = best_block(f, shared_of, shared, limit);
    *grid = best.grid_blocks;
    *block = best.block_threads;
    return CUDA_SUCCESS;
  });
}

/// Holds a question about clusters, and the part of the answer that is known
/// here.
struct cluster_question {
  // A multiprocessor holds this many blocks, without regard to clusters.
  int blocks = 0;
  // The kernel's clusters may have this many blocks.
  int most = 0;
  vgpu::call::active_clusters call;
  std::uint8_t device = 0;
};

CUresult ask(CUfunction handle, const CUlaunchConfig* config,
             cluster_question& out, const void* answer) {
  return with_function(handle, [&](function& f) -> CUresult {
    if (answer == nullptr || config == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    launch_shape shape;
    shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
    launch_attributes unused;
    if (auto code = unused.take(attribute_use::launch,
                                f.in->owner.device_index(), *config, shape);
        code != CUDA_SUCCESS)
      return code;
    auto wide =
        f.attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0;
    out.most = static_cast<int>(vgpu::most_of_cluster(wide));
    vgpu::call::dim3 c;
    auto code = clusters_of(shape, f, c);
    auto too_large = std::uint64_t{c.x} * c.y * c.z > vgpu::largest_cluster;
    // Where the kernel allows any size, too large a cluster is no error.
    // Libraries learn by it how many multiprocessors a group has; some have 18.
    if (code != CUDA_SUCCESS && !(wide && too_large))
      return code;
    auto threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    out.blocks =
        active_blocks(f, static_cast<int>(threads), config->sharedMemBytes);
    out.call = {
        .module = {f.in->wire},
        .kernel = f.index,
        .grid = shape.grid,
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .cluster = c,
        .dynamic_shared = config->sharedMemBytes};
    out.device = static_cast<std::uint8_t>(f.in->owner.device);
    return CUDA_SUCCESS;
  });
}

} // namespace

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize) {
  return count_blocks(numBlocks, func, blockSize, dynamicSMemSize);
}
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize,
    unsigned int flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  return count_blocks(numBlocks, func, blockSize, dynamicSMemSize);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
    int blockSizeLimit) {
  return choose_block(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                      dynamicSMemSize, blockSizeLimit);
}
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
    int blockSizeLimit, unsigned int flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return guarded([] { return CUDA_ERROR_INVALID_VALUE; });
  return choose_block(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                      dynamicSMemSize, blockSizeLimit);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(
    size_t* dynamicSmemSize, CUfunction func, int numBlocks, int blockSize) {
  return with_function(func, [&](function& f) {
    if (dynamicSmemSize == nullptr || numBlocks <= 0 || blockSize <= 0)
      return CUDA_ERROR_INVALID_VALUE;
    *dynamicSmemSize = available_shared(f, numBlocks, blockSize);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(
    int* clusterSize, CUfunction func, const CUlaunchConfig* config) {
  cluster_question x;
  auto code = ask(func, config, x, clusterSize);
  if (code == CUDA_SUCCESS)
    *clusterSize = x.blocks == 0 ? 0 : x.most;
  return code;
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func,
                                              const CUlaunchConfig* config) {
  cluster_question x;
  auto code = ask(func, config, x, numClusters);
  if (code != CUDA_SUCCESS)
    return code;
  *numClusters = 0;
  if (x.blocks == 0)
    return code;
  return guarded([&] {
    auto got = here().ask(x.call, x.device);
    if (got.result == CUDA_SUCCESS)
      *numClusters = static_cast<int>(got.value);
    return got.result;
  });
}
