// Wrong launches, and the errors of the real runtime for them. None is sticky,
// so the device continues to work.
#include <cstdio>
#include <cstring>
#include <semaphore.h>
#include <vector>

__global__ void nothing(int* p) {
  if (p)
    *p = 1;
}
__global__ void __launch_bounds__(64) bounded(int* p) {
  if (p)
    *p = 2;
}

static int wrong = 0;

static void expect(cudaError_t expected, cudaError_t got, const char* what) {
  if (got == expected)
    return;
  std::printf("%s: %s, expected %s\n", what, cudaGetErrorName(got),
              cudaGetErrorName(expected));
  ++wrong;
}

static void expect_bad_launch(dim3 grid, dim3 block, size_t shared,
                              const char* what) {
  nothing<<<grid, block, shared>>>(nullptr);
  expect(cudaErrorInvalidValue, cudaPeekAtLastError(), what);
  expect(cudaErrorInvalidValue, cudaGetLastError(), what);
  expect(cudaSuccess, cudaGetLastError(), "the error after it was read");
}

static void launches() {
  expect_bad_launch(1, 0, 0, "block of 0");
  expect_bad_launch(1, 1025, 0, "block of 1025");
  expect_bad_launch(1, 2048, 0, "block of 2048");
  expect_bad_launch(1, dim3(64, 64), 0, "block of 64x64");
  expect_bad_launch(1, dim3(1, 1, 65), 0, "block.z of 65");
  expect_bad_launch(0, 1, 0, "grid of 0");
  expect_bad_launch(dim3(1, 70000), 1, 0, "grid.y of 70000");
  expect_bad_launch(dim3(1, 1, 70000), 1, 0, "grid.z of 70000");
  expect_bad_launch(1, 1, 49 << 10, "49 KiB of shared memory");
  expect_bad_launch(1, 1, 256 << 10, "256 KiB of shared memory");
  expect_bad_launch(1, 1, 8 << 20, "8 MiB of shared memory");
  bounded<<<1, 65>>>(nullptr);
  expect(cudaErrorInvalidValue, cudaGetLastError(), "beyond launch bounds");
}

static void memory() {
  void* p = &p;
  expect(cudaSuccess, cudaMalloc(&p, 0), "cudaMalloc(0)");
  if (p) {
    std::printf("cudaMalloc(0) gave %p\n", p);
    ++wrong;
  }
  expect(cudaErrorMemoryAllocation, cudaMalloc(&p, size_t{1} << 46),
         "64 TiB of memory");
  expect(cudaErrorMemoryAllocation, cudaGetLastError(), "last error");
  char* dev = nullptr;
  expect(cudaSuccess, cudaMalloc(&dev, 4096), "cudaMalloc");
  expect(cudaErrorInvalidValue, cudaFree(dev + 16), "free of an inner pointer");
  expect(cudaErrorInvalidValue, cudaFree(reinterpret_cast<void*>(0x1230)),
         "free of a bad pointer");
  expect(cudaSuccess, cudaFree(nullptr), "free of null");

  std::vector<char> host(1 << 20);
  auto kind_of_nine = cudaMemcpyDefault;
  int nine = 9;
  std::memcpy(&kind_of_nine, &nine, sizeof kind_of_nine);
  expect(cudaErrorInvalidMemcpyDirection,
         cudaMemcpy(dev, host.data(), 16, kind_of_nine), "kind 9");
  expect(cudaErrorInvalidValue,
         cudaMemcpy(dev, host.data(), 8192, cudaMemcpyHostToDevice),
         "copy past the end");
  expect(cudaErrorInvalidValue,
         cudaMemcpy(nullptr, host.data(), 16, cudaMemcpyHostToDevice),
         "copy to null");
  expect(cudaErrorInvalidValue,
         cudaMemcpy(host.data(), dev, 16, cudaMemcpyHostToDevice),
         "copy in the wrong direction");
  expect(cudaSuccess, cudaFree(dev), "cudaFree");
  expect(cudaErrorInvalidValue, cudaFree(dev), "second free");
  cudaGetLastError();

  char *one = nullptr, *other = nullptr;
  expect(cudaSuccess, cudaMalloc(&one, 1), "cudaMalloc(1)");
  expect(cudaSuccess, cudaMalloc(&other, 1), "cudaMalloc(1)");
  auto apart = one < other ? other - one : one - other;
  if (apart != 512) {
    std::printf("two 1-byte allocations lie %td bytes apart\n", apart);
    ++wrong;
  }
  cudaFree(one);
  cudaFree(other);
}

static void wait_for_semaphore(void* p) {
  sem_wait(static_cast<sem_t*>(p));
}

static void handles() {
  expect(cudaErrorInvalidDevice, cudaSetDevice(99), "device 99");
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  float ms = 0;
  expect(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, b),
         "elapsed time of unrecorded events");
  cudaFuncAttributes attributes;
  expect(cudaErrorInvalidResourceHandle,
         cudaFuncGetAttributes(&attributes, &wrong), "host variable as kernel");
  expect(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(&wrong),
         "unregister of a plain pointer");
  cudaGetLastError();

  sem_t go;
  sem_init(&go, 0, 0);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaLaunchHostFunc(stream, wait_for_semaphore, &go);
  cudaEventRecord(a, stream);
  expect(cudaErrorNotReady, cudaEventQuery(a), "query of a pending event");
  expect(cudaErrorNotReady, cudaStreamQuery(stream), "query of a busy stream");
  sem_post(&go);
  expect(cudaSuccess, cudaEventSynchronize(a), "cudaEventSynchronize");
  expect(cudaSuccess, cudaEventQuery(a), "query of a completed event");
  cudaGetLastError();
  cudaStreamDestroy(stream);
  cudaEventDestroy(a);
  cudaEventDestroy(b);
}

int main() {
  launches();
  memory();
  handles();
  int *dev, value = 0;
  expect(cudaSuccess, cudaMalloc(&dev, sizeof value), "cudaMalloc");
  nothing<<<1, 1>>>(dev);
  expect(cudaSuccess,
         cudaMemcpy(&value, dev, sizeof value, cudaMemcpyDeviceToHost),
         "copy after all that");
  if (value != 1)
    ++wrong;
  std::printf(wrong ? "%d wrong\n" : "ok\n", wrong);
  return wrong ? 1 : 0;
}
