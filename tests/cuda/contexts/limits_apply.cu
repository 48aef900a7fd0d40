// Limits that are set hold: a deeper stack for calls, a larger heap for malloc
// in kernels. A context of its own begins with the first limits, and a reset
// brings them back.
// nvcc: -lcuda
#include "../check.hpp"

constexpr size_t mib = size_t(1) << 20;

__host__ __device__ inline int pick(const int* local, int below) {
  return local[(below & 0xffff) % 60];
}

__device__ __noinline__ int fall(int depth, int salt) {
  int local[60];
  for (int i = 0; i < 60; ++i)
    local[i] = depth * i + salt;
  if (depth == 0)
    return local[salt % 60];
  int below = fall(depth - 1, salt + 1);
  return below + pick(local, below);
}

static int on_host(int depth, int salt) {
  int local[60];
  for (int i = 0; i < 60; ++i)
    local[i] = depth * i + salt;
  if (depth == 0)
    return local[salt % 60];
  int below = on_host(depth - 1, salt + 1);
  return below + pick(local, below);
}

__global__ void deep(int* out, int depth) {
  out[threadIdx.x] = fall(depth, threadIdx.x);
}

// Takes blocks until there are enough or the heap is full, and frees them.
__global__ void grab(int* got, size_t bytes, int most) {
  void** first = nullptr;
  int n = 0;
  for (; n < most; ++n) {
    auto** p = static_cast<void**>(malloc(bytes));
    if (p == nullptr)
      break;
    *p = first;
    first = p;
  }
  while (first != nullptr) {
    auto** next = static_cast<void**>(*first);
    free(first);
    first = next;
  }
  *got = n;
}

static size_t limit(cudaLimit which) {
  size_t out = 0;
  CHECK(cudaDeviceGetLimit(&out, which));
  return out;
}

static int blocks(size_t bytes, int most) {
  int *got, out = 0;
  CHECK(cudaMalloc(&got, sizeof(int)));
  grab<<<1, 1>>>(got, bytes, most);
  CHECK(cudaMemcpy(&out, got, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(got));
  return out;
}

static void stack() {
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 64 << 10));
  EXPECT(limit(cudaLimitStackSize) >= 64 << 10);
  int *out, got[32];
  CHECK(cudaMalloc(&out, sizeof(got)));
  deep<<<1, 32>>>(out, 150);
  CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; ++i)
    EXPECT(got[i] == on_host(150, i));
  CHECK(cudaFree(out));
}

static void contexts() {
  CUcontext own;
  CHECK(cuCtxCreate_v4(&own, nullptr, 0, 0));
  size_t value = 0;
  CHECK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT(value == 1024);
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  CHECK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT(value >= 4096);
  CHECK(cuCtxDestroy(own));
  CHECK(cudaSetDevice(0));
  EXPECT(limit(cudaLimitStackSize) >= 64 << 10);
}

static void heap() {
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 96 * mib));
  EXPECT(limit(cudaLimitMallocHeapSize) >= 96 * mib);
  EXPECT(blocks(256 << 10, 240) == 240); // 60 MiB
  auto again = cudaDeviceSetLimit(cudaLimitMallocHeapSize, 128 * mib);
  std::printf("another heap after kernels have allocated: %s\n",
              cudaGetErrorName(again));
  EXPECT(again == cudaErrorInvalidValue);
  cudaGetLastError();
}

int main() {
  CHECK(cudaFree(nullptr));
  stack();
  contexts();
  heap();
  CHECK(cudaDeviceReset());
  EXPECT(limit(cudaLimitStackSize) == 1024);
  EXPECT(limit(cudaLimitMallocHeapSize) == 8 * mib);
  // A real GPU's worker keeps the memory of its larger heap.
  EXPECT(blocks(256 << 10, 240) >= 8);
  std::printf("ok\n");
}
