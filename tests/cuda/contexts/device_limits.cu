// Queries a device's limits and parts: limits of a context, resources for green
// contexts, how many clusters run at once. The printed values must be the same
// natively and on a vGPU of the same GPU.
// nvcc: -lcuda
#include "../check.hpp"

__global__ void kernel(int* out) {
  extern __shared__ int scratch[];
  scratch[threadIdx.x] = 1;
  out[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}

static CUdevice device;

static int attribute(CUdevice_attribute which) {
  int value = -1;
  CHECK(cuDeviceGetAttribute(&value, which, device));
  return value;
}

static void limits(bool hopper) {
  size_t value = 0;
  CHECK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT(value == 1024);
  if (hopper) {
    EXPECT(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) ==
           CUDA_ERROR_UNSUPPORTED_LIMIT);
    EXPECT(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2) ==
           CUDA_ERROR_UNSUPPORTED_LIMIT);
  }
  CHECK(cuCtxGetLimit(&value, CU_LIMIT_SHMEM_SIZE));
  EXPECT(value == size_t(attribute(
                      CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)));
  EXPECT(cuCtxGetLimit(&value, CUlimit(99)) == CUDA_ERROR_INVALID_VALUE);
}

static void resources(CUcontext context, bool hopper) {
  CUdevResource of_device = {}, of_context = {};
  CHECK(cuDeviceGetDevResource(device, &of_device, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(cuCtxGetDevResource(context, &of_context, CU_DEV_RESOURCE_TYPE_SM));
  auto count = unsigned(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  for (const auto* x : {&of_device, &of_context}) {
    EXPECT(x->type == CU_DEV_RESOURCE_TYPE_SM);
    EXPECT(x->sm.smCount == count);
    if (hopper)
      EXPECT(x->sm.minSmPartitionSize == 8 &&
             x->sm.smCoscheduledAlignment == 8);
  }
  EXPECT(cuDeviceGetDevResource(device, &of_device, CUdevResourceType(0)) ==
         CUDA_ERROR_INVALID_RESOURCE_TYPE);
  EXPECT(cuDeviceGetDevResource(device, nullptr, CU_DEV_RESOURCE_TYPE_SM) ==
         CUDA_ERROR_INVALID_VALUE);
}

static int clusters(unsigned size, unsigned threads, unsigned shared) {
  cudaLaunchConfig_t config = {};
  config.gridDim = size * 256;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  cudaLaunchAttribute a = {};
  a.id = cudaLaunchAttributeClusterDimension;
  a.val.clusterDim.x = size;
  a.val.clusterDim.y = a.val.clusterDim.z = 1;
  config.attrs = &a;
  config.numAttrs = 1;
  int count = -1;
  CHECK(cudaOccupancyMaxActiveClusters(&count, kernel, &config));
  return count;
}

static void cluster_counts() {
  constexpr int shared = 200 * 1024;
  CHECK(cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  CHECK(cudaFuncSetAttribute(
      kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  for (unsigned threads : {128u, 384u, 1024u})
    // A few groups may have more multiprocessors than a cluster has blocks.
    for (unsigned size : {1u, 2u, 4u, 8u, 16u, 17u, 18u, 20u}) {
      auto many = clusters(size, threads, 0);
      auto few = clusters(size, threads, shared);
      std::printf("clusters of %u blocks of %u threads: %d, with %d bytes %d\n",
                  size, threads, many, shared, few);
      EXPECT(many >= few && (few > 0 || size > 16));
    }
}

int main() {
  CHECK(cudaFree(nullptr));
  CHECK(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  auto hopper = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9;
  limits(hopper);
  resources(context, hopper);
  if (hopper)
    cluster_counts();
  std::printf("as documented\n");
}
