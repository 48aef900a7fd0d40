// Two processes share device memory, and each sees the other's writes. Each
// closes what it opens, survives the other's death, and invalid handles are
// refused.
#include "two_processes.hpp"

#include <cstring>
#include <vector>

constexpr int many = 3 * (1 << 20) + 77; // not a multiple of a page
constexpr int few = 75;
constexpr auto flags = cudaIpcMemLazyEnablePeerAccess;

__global__ void fill(int* x, int n, int factor) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    x[i] = i * factor;
}

__global__ void add(int* x, int n, int by) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x)
    x[i] += by;
}

static void expect(const int* x, int n, int factor, int by) {
  std::vector<int> h(n);
  CHECK(cudaMemcpy(h.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i)
    EXPECT(h[i] == i * factor + by);
}

template <class Call>
static void refused(const char* what, Call call) {
  auto code = call();
  if (code == cudaSuccess) {
    std::printf("not refused: %s\n", what);
    std::exit(1);
  }
  (void)cudaGetLastError();
}

static cudaIpcMemHandle_t handle_of(void* x) {
  cudaIpcMemHandle_t out;
  CHECK(cudaIpcGetMemHandle(&out, x));
  return out;
}

static int* open(cudaIpcMemHandle_t handle) {
  void* out = nullptr;
  CHECK(cudaIpcOpenMemHandle(&out, handle, flags));
  return static_cast<int*>(out);
}

// -- the lender and the borrower

static void lend(line other) {
  int *large = nullptr, *small = nullptr, *own = nullptr;
  CHECK(cudaMalloc(&small, few * sizeof(int)));
  CHECK(cudaMalloc(&own, few * sizeof(int)));
  CHECK(cudaMalloc(&large, many * sizeof(int)));
  fill<<<64, 128>>>(large, many, 3);
  fill<<<1, 64>>>(small, few, 5);
  fill<<<1, 64>>>(own, few, 7);
  // Sends the handle while work runs.
  other.send(handle_of(large));
  other.send(handle_of(small));
  CHECK(cudaDeviceSynchronize());
  other.meet();
  // The other one changes it.
  other.meet();
  expect(large, many, 3, 1000);
  expect(small, few, 5, 2000);
  expect(own, few, 7, 0);
  // The other one sees this change.
  add<<<64, 128>>>(large, many, 1);
  std::vector<int> h(few, 42);
  CHECK(cudaMemcpy(small, h.data(), few * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  other.meet();

  void* again = nullptr;
  auto handle = handle_of(large);
  refused("its own handle",
          [&] { return cudaIpcOpenMemHandle(&again, handle, flags); });
  refused("a handle of host memory", [&] {
    cudaIpcMemHandle_t out;
    return cudaIpcGetMemHandle(&out, h.data());
  });
  // The other one has closed everything.
  other.meet();
  CHECK(cudaFree(large));
  CHECK(cudaFree(small));
  CHECK(cudaFree(own));
}

static void borrow(line other) {
  auto large_handle = other.receive<cudaIpcMemHandle_t>();
  auto small_handle = other.receive<cudaIpcMemHandle_t>();
  other.meet();
  auto* large = open(large_handle);
  auto* small = open(small_handle);
  expect(large, many, 3, 0);
  expect(small, few, 5, 0);
  // Memory that is opened twice must be closed twice.
  EXPECT(open(large_handle) == large);
  CHECK(cudaIpcCloseMemHandle(large));
  add<<<64, 128>>>(large, many, 1000);
  add<<<1, 64>>>(small, few, 2000);
  CHECK(cudaDeviceSynchronize());
  other.meet();
  other.meet();
  expect(large, many, 3, 1001);
  expect(small, few, 0, 42);

  // Uses both kinds of memory in one kernel and in one copy.
  int* own = nullptr;
  CHECK(cudaMalloc(&own, many * sizeof(int)));
  CHECK(cudaMemcpy(own, large, many * sizeof(int), cudaMemcpyDeviceToDevice));
  expect(own, many, 3, 1001);

  CHECK(cudaIpcCloseMemHandle(large));
  refused("closing once more", [&] { return cudaIpcCloseMemHandle(large); });
  refused("closing what was not opened",
          [&] { return cudaIpcCloseMemHandle(own); });
  // It can be opened again.
  large = open(large_handle);
  expect(large, many, 3, 1001);
  CHECK(cudaIpcCloseMemHandle(large));
  CHECK(cudaIpcCloseMemHandle(small));
  void* none = nullptr;
  cudaIpcMemHandle_t garbage;
  std::memset(&garbage, 0x5a, sizeof(garbage));
  refused("garbage",
          [&] { return cudaIpcOpenMemHandle(&none, garbage, flags); });
  add<<<64, 128>>>(own, many, 1);
  expect(own, many, 3, 1002);
  CHECK(cudaFree(own));
  other.meet();
}

// -- the lender dies first

static void lend_and_leave(line other) {
  int* x = nullptr;
  CHECK(cudaMalloc(&x, many * sizeof(int)));
  fill<<<64, 128>>>(x, many, 2);
  CHECK(cudaDeviceSynchronize());
  other.send(handle_of(x));
  other.meet();
  _exit(0);
}

static void outlive(line other) {
  auto* x = open(other.receive<cudaIpcMemHandle_t>());
  expect(x, many, 2, 0);
  other.meet();
  other.wait_for_end();
  CHECK(cudaIpcCloseMemHandle(x));
  CHECK(cudaMalloc(&x, many * sizeof(int)));
  fill<<<64, 128>>>(x, many, 9);
  expect(x, many, 9, 0);
  CHECK(cudaFree(x));
}

int main() {
  // CUDA is used only in children, because this process forks twice.
  auto in_children = [](auto first, auto second) {
    auto pid = fork();
    if (pid == 0)
      _exit(run_two(first, second) ? 0 : 1);
    int status = 0;
    return waitpid(pid, &status, 0) == pid && status == 0;
  };
  if (!in_children(lend, borrow) || !in_children(outlive, lend_and_leave))
    return 1;
  std::printf("ok\n");
}
