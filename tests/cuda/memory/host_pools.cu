// nvcc: -lcuda
// Memory of the host from pools, in stream order: kernels and the program use
// it, and a stream that frees a block may get it again at once.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int n = 20000;

__global__ void add(int* x, const int* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    x[i] += y[i];
}

__global__ void ramp(int* x, int count, int first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    x[i] = first + i;
}

CUmemoryPool make(CUmemLocationType type) {
  CUmemPoolProps what = {};
  what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location.type = type;
  CUmemoryPool out = nullptr;
  CHECK(cuMemPoolCreate(&out, &what));
  CUmemAccessDesc device = {};
  device.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  device.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemPoolSetAccess(out, &device, 1));
  return out;
}

int* allocate(CUmemoryPool pool, size_t count, cudaStream_t in) {
  CUdeviceptr out = 0;
  CHECK(cuMemAllocFromPoolAsync(&out, count * sizeof(int), pool, in));
  return reinterpret_cast<int*>(out);
}

/// Temporary memory of kernels, which the program never waits for.
void in_stream_order(CUmemoryPool pool, cudaStream_t s) {
  int* sum = allocate(pool, n, s);
  CHECK(cudaMemsetAsync(sum, 0, n * sizeof(int), s));
  constexpr int rounds = 50;
  for (int r = 0; r < rounds; ++r) {
    int* part = allocate(pool, n, s);
    ramp<<<(n + 255) / 256, 256, 0, s>>>(part, n, r);
    add<<<(n + 255) / 256, 256, 0, s>>>(sum, part, n);
    CHECK(cudaFreeAsync(part, s));
  }
  CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < n; ++i)
    EXPECT(sum[i] == rounds * i + rounds * (rounds - 1) / 2);
  CHECK(cudaFreeAsync(sum, s));
}

void both_sides(CUmemoryPool pool, cudaStream_t s) {
  int *x = allocate(pool, n, s), *y = allocate(pool, n, s);
  CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < n; ++i) {
    x[i] = i;
    y[i] = 2 * i;
  }
  for (int r = 0; r < 3; ++r) {
    add<<<(n + 255) / 256, 256, 0, s>>>(x, y, n);
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i += 10)
      x[i] += 1;
  }
  for (int i = 0; i < n; ++i)
    EXPECT(x[i] == 7 * i + (i % 10 == 0 ? 3 : 0));
  CHECK(cudaFree(x)); // An ordinary free waits.
  CHECK(cudaFreeAsync(y, s));
}

/// Many sizes, none of which may stay for good.
void many(CUmemoryPool pool, cudaStream_t s) {
  for (int i = 0; i < 300; ++i) {
    auto* x = allocate(pool, (i % 37 + 1) * 5000, s);
    ramp<<<1, 32, 0, s>>>(x, 32, i);
    CHECK(cudaFreeAsync(x, s));
    if (i % 50 == 0)
      CHECK(cudaStreamSynchronize(s));
  }
  CHECK(cudaDeviceSynchronize());
  size_t used = 1;
  CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT(used == 0);
}

} // namespace

int main() {
  CHECK(cudaFree(nullptr));
  int host = 0, nodes = 0;
  CHECK(cuDeviceGetAttribute(
      &host, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0));
  CHECK(cuDeviceGetAttribute(
      &nodes, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0));
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  for (auto type :
       {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
    if ((type == CU_MEM_LOCATION_TYPE_HOST ? host : nodes) == 0)
      continue;
    auto pool = make(type);
    in_stream_order(pool, s);
    many(pool, s);
    both_sides(pool, s);
    CHECK(cuMemPoolDestroy(pool));
  }
  CHECK(cudaStreamDestroy(s));
  std::printf("ok\n");
}
