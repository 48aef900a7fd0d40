#include "interposer/code/occupancy.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <cuda_occupancy.h>

#include <algorithm>

namespace vgpu::interposer {

namespace {

const device_facts& facts_of(const function& f) {
  return process::the_session().devices().at(
      static_cast<std::size_t>(f.in->owner.device));
}

/// NVIDIA's arithmetic refuses GPUs that are newer than itself. It gets, in
/// their place, the newest capability with the same shared memory, 228 KiB for
/// each multiprocessor.
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
  // Every kernel may use this much shared memory, without opting in.
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
