#include "interposer/api/entry.hpp"

#include "interposer/code/occupancy.hpp"

#include "interposer/code/launch.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/cluster_shapes.hpp"

#include <cuda_occupancy.h>

#include <algorithm>
#include <limits>

namespace vgpu::interposer {

namespace {

const device_facts& facts_of(const function& f) {
  return process::the_session().devices().at(
      static_cast<std::size_t>(f.in->owner.device));
}

/// NVIDIA's arithmetic refuses GPUs newer than itself. They are taken as the
/// newest of those that share their memory alike, 228 KiB a multiprocessor.
constexpr int newest_known = 12, taken_as = 10;

cudaOccDeviceProp properties_of(const device_facts& d) {
  cudaOccDeviceProp p;
  p.computeMajor = d.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.computeMinor = d.value_of(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (p.computeMajor > newest_known) {
    p.computeMajor = taken_as;
    p.computeMinor = 0;
  }
  p.maxThreadsPerBlock = d.value_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p.maxThreadsPerMultiprocessor =
      d.value_of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  p.regsPerBlock = d.value_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  p.regsPerMultiprocessor =
      d.value_of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  p.warpSize = d.value_of(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  p.sharedMemPerBlock = static_cast<std::size_t>(
      d.value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  p.sharedMemPerMultiprocessor = static_cast<std::size_t>(
      d.value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  p.numSms = d.value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p.sharedMemPerBlockOptin = static_cast<std::size_t>(
      d.value_of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  p.reservedSharedMemPerBlock = static_cast<std::size_t>(
      d.value_of(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
  return p;
}

cudaOccFuncAttributes attributes_of(const function& f) {
  cudaOccFuncAttributes a;
  auto most = f.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  a.maxThreadsPerBlock = most > 0 ? most : 1024;
  a.numRegs = std::max(1, f.attribute(CU_FUNC_ATTRIBUTE_NUM_REGS));
  a.sharedSizeBytes = static_cast<std::size_t>(
      f.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  a.partitionedGCConfig = PARTITIONED_GC_OFF;
  a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  a.maxDynamicSharedSizeBytes = static_cast<std::size_t>(std::max(
      0, f.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)));
  a.numBlockBarriers = 1;
  return a;
}

int multiprocessors(const function& f) {
  return facts_of(f).value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
}

} // namespace

int active_blocks(const function& f, int block_threads,
                  std::size_t dynamic_shared) {
  auto properties = properties_of(facts_of(f));
  auto attributes = attributes_of(f);
  // A kernel may use what every kernel may, opted in or not.
  if (attributes.maxDynamicSharedSizeBytes < dynamic_shared &&
      attributes.sharedSizeBytes + dynamic_shared <=
          properties.sharedMemPerBlock)
    attributes.maxDynamicSharedSizeBytes = dynamic_shared;
  cudaOccDeviceState state;
  cudaOccResult got;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(
          &got, &properties, &attributes, &state, block_threads,
          dynamic_shared) != CUDA_OCC_SUCCESS)
    return 0;
  return got.activeBlocksPerMultiprocessor;
}

std::size_t available_shared(const function& f, int blocks, int block_threads) {
  auto properties = properties_of(facts_of(f));
  auto attributes = attributes_of(f);
  cudaOccDeviceState state;
  std::size_t bytes = 0;
  if (cudaOccAvailableDynamicSMemPerBlock(&bytes, &properties, &attributes,
                                          &state, blocks,
                                          block_threads) != CUDA_OCC_SUCCESS)
    return 0;
  return bytes;
}

block_choice best_block(const function& f, CUoccupancyB2DSize shared_of,
                        std::size_t dynamic_shared, int block_limit) {
  auto most = std::min(attributes_of(f).maxThreadsPerBlock,
                       properties_of(facts_of(f)).maxThreadsPerBlock);
  if (block_limit > 0)
    most = std::min(most, block_limit);
  block_choice best;
  int best_threads = 0;
  constexpr int warp = 32;
  for (int threads = (most + warp - 1) / warp * warp; threads > 0;
       threads -= warp) {
    auto size = std::min(threads, most);
    auto bytes = shared_of != nullptr ? shared_of(size) : dynamic_shared;
    auto blocks = active_blocks(f, size, bytes);
    if (blocks * size <= best_threads)
      continue;
    best_threads = blocks * size;
    best = {size, blocks * multiprocessors(f)};
  }
  return best;
}

} // namespace vgpu::interposer

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

/// A question about clusters, and what is known here of the answer.
struct cluster_question {
  int blocks = 0; // that a multiprocessor holds, clusters aside
  int most = 0;   // blocks that the kernel's clusters may have
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
    if (auto code = apply_attributes(shape, *config); code != CUDA_SUCCESS)
      return code;
    auto wide =
        f.attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0;
    out.most = static_cast<int>(vgpu::most_of_cluster(wide));
    vgpu::call::dim3 c;
    auto code = clusters_of(shape, f, c);
    auto too_large = std::uint64_t{c.x} * c.y * c.z > vgpu::largest_cluster;
    // Where any size is allowed, too large a one is no error: it is how
    // libraries learn how many multiprocessors a group has. Some have 18.
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
