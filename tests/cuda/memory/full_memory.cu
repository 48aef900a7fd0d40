// nvcc: -lcuda
// Memory that is filled with blocks of odd sizes, in every way: what does not
// fit is refused at its call, and nothing else suffers from it.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

__global__ void put(int* p, int v) {
  p[threadIdx.x] = v;
}

void fail(const char* what, int line) {
  std::printf("line %d: %s\n", line, what);
  std::exit(1);
}
#define TRY(x)                                                                 \
  if (auto code = (x); code != cudaSuccess)                                    \
  fail(cudaGetErrorName(code), __LINE__)
#define REQUIRE(x)                                                             \
  if (!(x))                                                                    \
  fail(#x, __LINE__)

/// Requires that the session works, and owes no error.
void works() {
  int *p = nullptr, got = 0;
  TRY(cudaMalloc(&p, 1000));
  put<<<1, 32>>>(p, 9);
  TRY(cudaMemcpy(&got, p + 31, 4, cudaMemcpyDeviceToHost));
  TRY(cudaFree(p));
  TRY(cudaDeviceSynchronize());
  REQUIRE(got == 9);
}

std::size_t bytes_free() {
  std::size_t free = 0, total = 0;
  TRY(cudaMemGetInfo(&free, &total));
  REQUIRE(free <= total);
  return free;
}

bool refused(cudaError_t x) {
  (void)cudaGetLastError();
  REQUIRE(x == cudaSuccess || x == cudaErrorMemoryAllocation);
  return x != cudaSuccess;
}

/// Takes blocks of these sizes in turn until none of them fits, and writes to
/// the ends of each.
std::vector<void*> fill(const std::vector<std::size_t>& sizes, bool in_order) {
  std::vector<void*> out;
  for (std::size_t missed = 0, i = 0; missed < sizes.size(); ++i) {
    auto bytes = sizes[i % sizes.size()];
    void* p = nullptr;
    if (refused(in_order ? cudaMallocAsync(&p, bytes, 0)
                         : cudaMalloc(&p, bytes))) {
      ++missed;
      continue;
    }
    missed = 0;
    out.push_back(p);
    TRY(cudaMemsetAsync(p, 5, 1));
    TRY(cudaMemsetAsync(static_cast<char*>(p) + bytes - 1, 5, 1));
  }
  TRY(cudaDeviceSynchronize());
  return out;
}

/// Fills the rest with small blocks, of which each may be replaced.
void replace_small(std::size_t bytes) {
  auto all = fill({bytes}, false);
  REQUIRE(!all.empty());
  for (std::size_t i = 0; i < all.size(); i += all.size() / 5 + 1) {
    TRY(cudaFree(all[i]));
    TRY(cudaMalloc(&all[i], bytes));
  }
  for (auto* x : all)
    TRY(cudaFree(x));
}

} // namespace

int main() {
  works();
  std::size_t start = bytes_free();
  // The largest share of the memory that a test should touch
  void* most = nullptr;
  if (start > 600 * mib)
    TRY(cudaMalloc(&most, (start - 500 * mib) / mib * mib));
  auto room = bytes_free();
  for (bool in_order : {false, true}) {
    std::vector<std::size_t> sizes{room / 7 + 12345, 3 * mib + 1, mib + 513,
                                   700001, 33333};
    auto all = fill(sizes, in_order);
    auto left = bytes_free();
    REQUIRE(left < 2 * mib);
    void* p = nullptr;
    REQUIRE(refused(cudaMalloc(&p, left + 4 * mib)));
    REQUIRE(refused(cudaMallocAsync(&p, left + 4 * mib, 0)));
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE(cuMemCreate(&handle, (left / (2 * mib) + 2) * 2 * mib, &what, 0) ==
            CUDA_ERROR_OUT_OF_MEMORY);
    cudaArray_t array = nullptr;
    auto texel = cudaCreateChannelDesc<float>();
    REQUIRE(refused(cudaMallocArray(&array, &texel, 4096, 1024)));
    TRY(cudaDeviceSynchronize());
    // Another block of the same size fits where the first one was.
    for (int i = 0; i < 3; ++i) {
      TRY(in_order ? cudaFreeAsync(all.front(), 0) : cudaFree(all.front()));
      TRY(in_order ? cudaMallocAsync(&all.front(), sizes[0], 0)
                   : cudaMalloc(&all.front(), sizes[0]));
      TRY(cudaMemsetAsync(all.front(), 6, sizes[0]));
    }
    for (auto* x : all)
      TRY(in_order ? cudaFreeAsync(x, 0) : cudaFree(x));
    TRY(cudaDeviceSynchronize());
    REQUIRE(bytes_free() == room);
    works();
  }
  for (auto bytes : {mib, mib + mib / 2, 600001UL})
    replace_small(bytes);
  TRY(cudaFree(most));
  TRY(cudaDeviceSynchronize());
  REQUIRE(bytes_free() == start);
  works();
  std::printf("ok\n");
  return 0;
}
