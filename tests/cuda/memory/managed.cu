// nvcc: -lcuda
// Managed memory as programs use it: host, kernels and copies touch it in turn,
// in pieces and as linked nodes. Also tests its attributes.
#include "../check.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

__global__ void add(int* x, int n, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    x[i] += by;
}

template <class T>
T* managed(std::size_t count) {
  T* p = nullptr;
  CHECK(cudaMallocManaged(&p, count * sizeof(T)));
  return p;
}

void launch_add(int* x, int n, int by, cudaStream_t in = nullptr) {
  add<<<(n + 255) / 256, 256, 0, in>>>(x, n, by);
  CHECK(cudaGetLastError());
}

// Host and device write in turn. The size is not a multiple of a page.
void turns(int n) {
  int* x = managed<int>(n);
  std::iota(x, x + n, 0);
  for (int round = 1; round <= 3; ++round) {
    launch_add(x, n, 1000);
    CHECK(cudaDeviceSynchronize());
    EXPECT(x[0] == 1001 * round - round + (round - 1));
    EXPECT(x[n / 2] == n / 2 + 1000 * round);
    EXPECT(x[n - 1] == n - 1 + 1000 * round);
    ++x[0]; // the only write in a page that is otherwise read
  }
  launch_add(x, n, -3000);
  CHECK(cudaDeviceSynchronize());
  EXPECT(x[0] == 3);
  for (int i = 1; i < n; ++i)
    EXPECT(x[i] == i);
  CHECK(cudaFree(x));
}

// Touches only a part of a large allocation.
void sparse() {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  auto* x = managed<int>(bytes / sizeof(int));
  constexpr std::size_t step = (std::size_t{32} << 20) / sizeof(int);
  for (std::size_t i = 0; i < bytes / sizeof(int); i += step)
    x[i] = static_cast<int>(i / step);
  for (std::size_t i = 0; i < bytes / sizeof(int); i += step)
    launch_add(x + i, 1, 7);
  CHECK(cudaDeviceSynchronize());
  for (std::size_t i = 0; i < bytes / sizeof(int); i += step)
    EXPECT(x[i] == static_cast<int>(i / step) + 7);
  CHECK(cudaFree(x));
}

struct node {
  int value;
  node* next;
};

__global__ void sum_list(const node* first, int* out) {
  int all = 0;
  for (const node* n = first; n != nullptr; n = n->next)
    all += n->value;
  *out = all;
}

// Builds a list whose pointers are in managed memory and point to managed
// memory.
void list() {
  node* first = nullptr;
  CHECK(cudaMallocManaged(&first, sizeof(node)));
  first->value = 1;
  first->next = nullptr;
  node* last = first;
  for (int i = 2; i <= 200; ++i) {
    CHECK(cudaMallocManaged(&last->next, sizeof(node)));
    last = last->next;
    last->value = i;
    last->next = nullptr;
  }
  int* out = managed<int>(1);
  sum_list<<<1, 1>>>(first, out);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*out == 200 * 201 / 2);
  // The allocation writes its pointer to memory that the device has at this
  // time.
  sum_list<<<1, 1>>>(first, out);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMallocManaged(&last->next, sizeof(node)));
  *last->next = {1000, nullptr};
  sum_list<<<1, 1>>>(first, out);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*out == 200 * 201 / 2 + 1000);
  for (node* n = first; n != nullptr;) {
    node* next = n->next;
    CHECK(cudaFree(n));
    n = next;
  }
  CHECK(cudaFree(out));
}

// A managed pointer is valid as host and as device pointer of a copy. The
// result of a copy or a memset is visible when the call returns.
void copies() {
  constexpr int n = 50000;
  constexpr std::size_t bytes = n * sizeof(int);
  int* a = managed<int>(n);
  int* b = managed<int>(n);
  int* d = nullptr;
  CHECK(cudaMalloc(&d, bytes));
  std::vector<int> h(n);
  std::iota(h.begin(), h.end(), 5);
  CHECK(cudaMemcpy(a, h.data(), bytes, cudaMemcpyDefault));
  EXPECT(a[0] == 5 && a[n - 1] == n + 4);
  a[0] = 77;
  CHECK(cudaMemcpy(d, a, bytes, cudaMemcpyHostToDevice));
  launch_add(d, n, 1);
  CHECK(cudaMemcpy(b, d, bytes, cudaMemcpyDeviceToHost));
  EXPECT(b[0] == 78 && b[n - 1] == n + 5);
  CHECK(cudaMemcpy(h.data(), b, bytes, cudaMemcpyDeviceToHost));
  EXPECT(h[0] == 78 && h[1] == 7);
  CHECK(cudaMemcpy(a, b, bytes, cudaMemcpyHostToHost));
  EXPECT(a[0] == 78);
  CHECK(cudaMemset(a, 0x11, bytes));
  EXPECT(a[0] == 0x11111111 && a[n - 1] == 0x11111111);
  std::memcpy(a, b, bytes); // a host copy between managed memory
  CHECK(cudaMemcpyAsync(h.data(), a, bytes, cudaMemcpyDefault));
  CHECK(cudaDeviceSynchronize());
  EXPECT(h[n - 1] == n + 5);
  EXPECT(cudaMemcpy(a, h.data(), bytes + 4, cudaMemcpyDefault) ==
         cudaErrorInvalidValue);
  (void)cudaGetLastError();
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(d));
}

struct shared_state {
  int* numbers;
  int n;
  long long sum;
};

void CUDART_CB sum_up(void* data) {
  auto* s = static_cast<shared_state*>(data);
  for (int i = 0; i < s->n; ++i)
    s->sum += s->numbers[i];
}

// A host function touches results of earlier work in its stream, while other
// threads wait for the device.
void host_function() {
  constexpr int n = 30000;
  auto* s = managed<shared_state>(1);
  *s = {managed<int>(n), n, 0};
  std::fill(s->numbers, s->numbers + n, 1);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  launch_add(s->numbers, n, 1, stream);
  CHECK(cudaLaunchHostFunc(stream, sum_up, s));
  CHECK(cudaDeviceSynchronize());
  EXPECT(s->sum == 2 * n);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(s->numbers));
  CHECK(cudaFree(s));
}

// Launches with a parameter block in managed memory that the host or the device
// has.
void parameters() {
  struct block {
    int* x;
    int n;
    int by;
  };
  constexpr int n = 100;
  int* x = managed<int>(n);
  auto* p = managed<block>(1);
  std::fill(x, x + n, 1);
  *p = {x, n, 5};
  cudaFunction_t f;
  CHECK(cudaGetFuncBySymbol(&f, reinterpret_cast<const void*>(add)));
  size_t bytes = sizeof *p;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, p,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  for (int round = 1; round <= 2; ++round) {
    EXPECT(cuLaunchKernel(f, 1, 1, 1, n, 1, 1, 0, nullptr, nullptr, extra) ==
           CUDA_SUCCESS);
    CHECK(cudaDeviceSynchronize());
  }
  EXPECT(x[n - 1] == 11);
  CHECK(cudaFree(x));
  CHECK(cudaFree(p));
}

// Several threads touch the same and different pages at the same time.
void threads() {
  constexpr int n = 1 << 20;
  int* x = managed<int>(n);
  std::iota(x, x + n, 0);
  launch_add(x, n, 1);
  CHECK(cudaDeviceSynchronize());
  std::vector<long long> sums(4);
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&, t] {
      for (int i = 0; i < n; ++i)
        sums[t] += x[i];
      for (int i = t; i < n; i += 4)
        x[i] = -i;
    });
  for (auto& each : all)
    each.join();
  launch_add(x, n, 0);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i)
    EXPECT(x[i] == -i);
  CHECK(cudaFree(x));
}

void asked() {
  int device = 0, managed_supported = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&managed_supported, cudaDevAttrManagedMemory,
                               device));
  EXPECT(managed_supported == 1);
  constexpr std::size_t bytes = 1 << 20;
  auto* x = managed<char>(bytes);
  cudaPointerAttributes a;
  CHECK(cudaPointerGetAttributes(&a, x + 100));
  EXPECT(a.type == cudaMemoryTypeManaged);
  EXPECT(a.devicePointer == x + 100 && a.hostPointer == x + 100);

  cudaMemLocation here = {cudaMemLocationTypeDevice, device};
  cudaMemLocation host = {cudaMemLocationTypeHost, 0};
  std::memset(x, 3, bytes);
  CHECK(cudaMemPrefetchAsync(x, bytes, here, 0, nullptr));
  CHECK(cudaMemPrefetchAsync(x, bytes / 2, host, 0, nullptr));
  CHECK(cudaDeviceSynchronize());
  EXPECT(x[0] == 3 && x[bytes - 1] == 3);
  CHECK(cudaMemAdvise(x, bytes, cudaMemAdviseSetReadMostly, here));
  CHECK(cudaMemAdvise(x, bytes / 2, cudaMemAdviseSetPreferredLocation, here));
  CHECK(cudaMemAdvise(x, bytes, cudaMemAdviseSetAccessedBy, here));
  int value = -9;
  CHECK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, x,
                                 bytes));
  EXPECT(value == 1);
  CHECK(cudaMemRangeGetAttribute(
      &value, 4, cudaMemRangeAttributePreferredLocation, x, bytes / 2));
  EXPECT(value == device);
  CHECK(cudaMemRangeGetAttribute(
      &value, 4, cudaMemRangeAttributePreferredLocation, x, bytes));
  EXPECT(value == cudaInvalidDeviceId);
  int by[2] = {-9, -9};
  CHECK(cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy,
                                 x, bytes));
  EXPECT(by[0] == device && by[1] == cudaInvalidDeviceId);
  CHECK(cudaMemRangeGetAttribute(
      &value, 4, cudaMemRangeAttributeLastPrefetchLocation, x, bytes / 2));
  EXPECT(value == cudaCpuDeviceId);
  EXPECT(cudaMemPrefetchAsync(x, 2 * bytes, here, 0, nullptr) != cudaSuccess);
  (void)cudaGetLastError();

  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaStreamAttachMemAsync(s, x, 0, cudaMemAttachSingle));
  CHECK(cudaStreamAttachMemAsync(s, x, 0, cudaMemAttachHost));
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaStreamDestroy(s));
  char* none = nullptr;
  EXPECT(cudaMallocManaged(&none, 16, 77) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  CHECK(cudaFree(x));
}

int main() {
  turns(2);
  turns(12345);
  turns(1 << 20);
  sparse();
  list();
  copies();
  host_function();
  parameters();
  threads();
  asked();
  std::printf("ok\n");
}
