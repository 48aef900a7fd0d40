// Two devices of one program: copies between them in all forms, and kernels of
// one on the other's memory if they are peers. With one device there is nothing
// to do.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

constexpr int n = 1 << 16;
constexpr size_t bytes = n * sizeof(int);

__global__ void add(int* x, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int all = by;
  for (int k = 0; k < 200; ++k) // long enough to be overtaken
    all = all * 3 - by * 2 - (all - by) * 3 + (all - by);
  x[i] += all;
}

void expect_all(const int* x, int first) {
  std::vector<int> h(n);
  CHECK(cudaMemcpy(h.data(), x, bytes, cudaMemcpyDefault));
  for (int i = 0; i < n; ++i)
    EXPECT(h[i] == first + i);
}

/// Every device can use pinned memory, regardless of the current device when it
/// is allocated and freed.
void pinned_memory() {
  int* x = nullptr;
  CHECK(cudaSetDevice(1));
  CHECK(cudaHostAlloc(&x, bytes, cudaHostAllocDefault));
  std::iota(x, x + n, 0);
  for (int device : {0, 1}) {
    CHECK(cudaSetDevice(device));
    add<<<n / 256, 256>>>(x, 3);
    CHECK(cudaDeviceSynchronize());
  }
  for (int i = 0; i < n; ++i)
    EXPECT(x[i] == i + 6);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFreeHost(x));
  for (int device : {0, 1}) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceSynchronize());
  }
}

int main() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  if (count < 2) {
    std::printf("ok\n");
    return 0;
  }
  int *a = nullptr, *b = nullptr;
  std::vector<int> h(n);
  std::iota(h.begin(), h.end(), 0);
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&a, bytes));
  CHECK(cudaMemcpy(a, h.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaSetDevice(1));
  CHECK(cudaMalloc(&b, bytes));

  // The copy comes after the source's work, and before the destination's.
  CHECK(cudaSetDevice(0));
  add<<<n / 256, 256>>>(a, 1);
  CHECK(cudaMemcpyPeer(b, 1, a, 0, bytes));
  CHECK(cudaSetDevice(1));
  add<<<n / 256, 256>>>(b, 10);
  expect_all(b, 11);
  // The current device is not the memory's device.
  CHECK(cudaSetDevice(0));
  expect_all(b, 11);
  EXPECT(cudaMemset(b, 0, bytes) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  CHECK(cudaMemcpy(b, a, bytes, cudaMemcpyDefault));
  expect_all(b, 1);
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaMemcpyAsync(b, h.data(), bytes, cudaMemcpyHostToDevice, s));
  CHECK(cudaMemcpyPeerAsync(a, 0, b, 1, bytes, s));
  add<<<n / 256, 256, 0, s>>>(a, 5);
  CHECK(cudaStreamSynchronize(s));
  expect_all(a, 5);

  int reach = 0;
  CHECK(cudaDeviceCanAccessPeer(&reach, 0, 1));
  if (reach) {
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    EXPECT(cudaDeviceEnablePeerAccess(1, 0) ==
           cudaErrorPeerAccessAlreadyEnabled);
    (void)cudaGetLastError();
    add<<<n / 256, 256, 0, s>>>(b, 7); // device 0, on the memory of device 1
    CHECK(cudaStreamSynchronize(s));
    expect_all(b, 7);
    CHECK(cudaMemset(b, 0, bytes));
    CHECK(cudaDeviceSynchronize()); // The device does not use that memory now.
    CHECK(cudaDeviceDisablePeerAccess(1));
    EXPECT(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
    (void)cudaGetLastError();
  } else {
    EXPECT(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
    (void)cudaGetLastError();
  }
  EXPECT(cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess);
  (void)cudaGetLastError();
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  pinned_memory();
  std::printf("ok\n");
}
