// nvcc: -lcuda
// Uses memory of the host that it maps by itself: the program writes the input
// once, and each round's kernels write the output. The result of a round
// depends on all earlier rounds. Prints one line per round.
//
//   placed_host ROUNDS PAUSE_MS
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

constexpr int n = 300000;

static void check(int got, const char* what) {
  if (got == 0)
    return;
  std::printf("%s: error %d\n", what, got);
  std::exit(1);
}

__global__ void stir(unsigned* state, const unsigned* in, unsigned* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  state[i] = state[i] * 1664525u + in[i];
  out[i] = state[i];
}

/// Memory of the host at an address that the program reserves.
struct place {
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr at = 0;
  size_t bytes = 0;

  void open(size_t wanted) {
    CUmemAllocationProp what = {};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location.type = CU_MEM_LOCATION_TYPE_HOST;
    size_t granule = 0;
    check(cuMemGetAllocationGranularity(&granule, &what,
                                        CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
    bytes = (wanted + granule - 1) / granule * granule;
    check(cuMemAddressReserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve");
    check(cuMemCreate(&memory, bytes, &what, 0), "cuMemCreate");
    check(cuMemMap(at, bytes, 0, memory, 0), "cuMemMap");
    CUmemAccessDesc all[2] = {};
    all[0].location.type = CU_MEM_LOCATION_TYPE_HOST;
    all[1].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    for (auto& x : all)
      x.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check(cuMemSetAccess(at, bytes, all, 2), "cuMemSetAccess");
  }
  void close() {
    check(cuMemUnmap(at, bytes), "cuMemUnmap");
    check(cuMemRelease(memory), "cuMemRelease");
    check(cuMemAddressFree(at, bytes), "cuMemAddressFree");
  }
  unsigned* words() const { return reinterpret_cast<unsigned*>(at); }
};

static unsigned fold(const unsigned* x) {
  unsigned out = 2166136261u;
  for (int i = 0; i < n; ++i)
    out = (out ^ x[i]) * 16777619u;
  return out;
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 12;
  int pause = argc > 2 ? std::atoi(argv[2]) : 0;
  unsigned* state = nullptr;
  check(cudaMalloc(&state, n * sizeof(unsigned)), "cudaMalloc");
  check(cudaMemset(state, 1, n * sizeof(unsigned)), "cudaMemset");
  place in, out;
  in.open(n * sizeof(unsigned));
  out.open(n * sizeof(unsigned));
  for (unsigned i = 0; i < n; ++i)
    in.words()[i] = i * 2654435761u;
  for (int round = 1; round <= rounds; ++round) {
    for (int k = 0; k < 3; ++k)
      stir<<<(n + 255) / 256, 256>>>(state, in.words(), out.words());
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::printf("round %d: %08x\n", round, fold(out.words()));
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds{pause});
  }
  in.close();
  out.close();
  check(cudaFree(state), "cudaFree");
}
