// nvcc: -lcuda
// Uses memory that host and kernels write in turn: managed memory, a managed
// variable, and memory that it maps by itself. Prints a sum of all of it after
// each round.
//
//   unified ROUNDS PAUSE_MS
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

constexpr int n = 50000;
constexpr int most_pieces = 6;

__managed__ unsigned total = 7;

static void check(int got, const char* what) {
  if (got == 0)
    return;
  std::printf("%s: error %d\n", what, got);
  std::exit(1);
}

__global__ void stir(unsigned* field, unsigned* pieces, int words) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned x = field[i] + total;
  for (int k = 0; k < 50; ++k)
    x = x * 1664525 + 1013904223;
  field[i] = x;
  for (int j = i; j < words; j += n)
    pieces[j] = pieces[j] * 31 + x;
}

struct segment {
  CUdeviceptr base = 0;
  size_t granule = 0;
  int count = 0;
  CUmemAllocationProp what = {};

  void open() {
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    check(cuMemGetAllocationGranularity(&granule, &what,
                                        CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
    check(cuMemAddressReserve(&base, most_pieces * granule, 0, 0, 0),
          "cuMemAddressReserve");
  }
  void grow() {
    CUmemGenericAllocationHandle piece;
    auto at = base + count++ * granule;
    check(cuMemCreate(&piece, granule, &what, 0), "cuMemCreate");
    check(cuMemMap(at, granule, 0, piece, 0), "cuMemMap");
    CUmemAccessDesc access = {what.location,
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check(cuMemSetAccess(at, granule, &access, 1), "cuMemSetAccess");
    check(cuMemRelease(piece), "cuMemRelease");
    check(cuMemsetD32(at, count, granule / 4), "cuMemsetD32");
  }
  void shrink() {
    check(cuMemUnmap(base + --count * granule, granule), "cuMemUnmap");
  }
  int words() const { return static_cast<int>(count * granule / 4); }
};

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  int pause = argc > 2 ? std::atoi(argv[2]) : 0;
  unsigned* field = nullptr;
  check(cudaMallocManaged(&field, n * sizeof(unsigned)), "cudaMallocManaged");
  for (int i = 0; i < n; ++i)
    field[i] = static_cast<unsigned>(i) * 7919;
  segment pieces;
  pieces.open();
  for (int round = 1; round <= rounds; ++round) {
    if (pieces.count == most_pieces)
      for (int i = 0; i < 4; ++i)
        pieces.shrink();
    pieces.grow();
    stir<<<(n + 127) / 128, 128>>>(
        field, reinterpret_cast<unsigned*>(pieces.base), pieces.words());
    check(cudaGetLastError(), "a launch");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    unsigned long long sum = total;
    for (int i = 0; i < n; ++i)
      sum = sum * 31 + field[i];
    unsigned last = 0;
    check(cuMemcpyDtoH(&last, pieces.base + pieces.words() * 4ull - 4, 4),
          "cuMemcpyDtoH");
    std::printf("round %d: %016llx %08x\n", round, sum, last);
    std::fflush(stdout);
    // The next kernel sees this, some of which the host wrote.
    total += field[round];
    for (int i = round; i < n; i += 977)
      field[i] ^= total;
    std::this_thread::sleep_for(std::chrono::milliseconds{pause});
  }
}
