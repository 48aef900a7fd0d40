// nvcc: -lcuda
// A program with objects of every kind that a move must preserve. Its output
// depends on all of them.
//
//   mover ROUNDS PAUSE         one line per round; PAUSE milliseconds between
//   mover loose ROUNDS PAUSE   the same, if events may be recorded again
//   mover clock ROUNDS PAUSE   the same, with results that differ each time
//   mover ... MIB              with so much more memory, all of it in use
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess)
    return;
  std::fprintf(stderr, "mover: %s: %s (%s)\n", what, cudaGetErrorString(code),
               cudaGetErrorName(code));
  std::exit(9);
}

constexpr int n = 1 << 16;
constexpr int side = 64;
constexpr int dynamic_shared = 60 << 10;

__device__ unsigned rounds_seen;
__device__ unsigned table[256];
__constant__ unsigned factor;
__device__ unsigned* from_heap;

__global__ void prepare() {
  from_heap = static_cast<unsigned*>(malloc(64 * sizeof(unsigned)));
  for (int i = 0; i < 64; ++i)
    from_heap[i] = i * 7;
  for (int i = 0; i < 256; ++i)
    table[i] = i * i;
}

__global__ void mix(unsigned* values) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = values[i] * factor + table[i % 256] + rounds_seen;
}

__global__ void count() {
  rounds_seen += 1;
  table[rounds_seen % 256] ^= from_heap[rounds_seen % 64]++;
}

__global__ void shuffle(unsigned* values) {
  extern __shared__ unsigned room[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  room[threadIdx.x] = values[i];
  __syncthreads();
  values[i] = room[blockDim.x - 1 - threadIdx.x];
}

__global__ void paint(cudaTextureObject_t from, cudaSurfaceObject_t to,
                      unsigned* values) {
  int x = threadIdx.x, y = blockIdx.x;
  float v = tex2D<float>(from, x + 0.75f, y + 0.25f);
  surf2Dwrite(v * 0.75f + (values[y * side + x] & 1023u) / 1024.0f, to, x * 4,
              y);
}

__global__ void stamp(unsigned* to) {
  *to = static_cast<unsigned>(clock64());
}

__global__ void churn(unsigned* whole, unsigned* twin, unsigned* loose,
                      unsigned* managed, unsigned round) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  loose[i] = loose[i] * 3 + whole[i] + round;
  whole[i] += loose[i] ^ managed[i];
  twin[i] += whole[i] * 5;
  managed[i] += twin[i];
}

static uint64_t hash(const void* data, size_t bytes, uint64_t h) {
  auto* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i)
    h = (h ^ p[i]) * 1099511628211ull;
  return h;
}

struct pictures {
  cudaArray_t arrays[2];
  cudaTextureObject_t from[2];
  cudaSurfaceObject_t to[2];

  pictures() {
    auto format = cudaCreateChannelDesc<float>();
    std::vector<float> start(side * side);
    for (int i = 0; i < side * side; ++i)
      start[i] = (i % 97) / 97.0f;
    for (int k = 0; k < 2; ++k) {
      check(cudaMallocArray(&arrays[k], &format, side, side,
                            cudaArraySurfaceLoadStore),
            "cudaMallocArray");
      check(cudaMemcpy2DToArray(arrays[k], 0, 0, start.data(), side * 4,
                                side * 4, side, cudaMemcpyHostToDevice),
            "copy to an array");
      cudaResourceDesc resource = {};
      resource.resType = cudaResourceTypeArray;
      resource.res.array.array = arrays[k];
      cudaTextureDesc sampling = {};
      sampling.filterMode = cudaFilterModeLinear;
      check(cudaCreateTextureObject(&from[k], &resource, &sampling, nullptr),
            "cudaCreateTextureObject");
      check(cudaCreateSurfaceObject(&to[k], &resource),
            "cudaCreateSurfaceObject");
    }
  }
};

static void check(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS)
    return;
  const char* name = nullptr;
  cuGetErrorName(code, &name);
  std::fprintf(stderr, "mover: %s: %s\n", what, name);
  std::exit(9);
}

/// Holds memory that the program maps by itself: some is mapped twice, and some
/// only while it is used. Also holds managed memory.
struct placed_memory {
  static constexpr int words = 1 << 12;
  size_t granule = 0;
  CUmemAccessDesc access = {};
  CUmemGenericAllocationHandle both = 0, loose = 0;
  CUdeviceptr whole = 0, twin = 0, place = 0;
  unsigned* managed = nullptr;

  placed_memory() {
    CUmemAllocationProp kind = {};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = kind.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check(cuMemGetAllocationGranularity(&granule, &kind,
                                        CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "granularity");
    check(cuMemCreate(&both, 2 * granule, &kind, 0), "cuMemCreate");
    check(cuMemCreate(&loose, granule, &kind, 0), "cuMemCreate");
    check(cuMemAddressReserve(&whole, 8 * granule, 0, 0, 0), "addresses");
    twin = whole + 4 * granule;
    place = whole + 6 * granule;
    map(whole, 2 * granule, both);
    map(twin, 2 * granule, both);
    twin += granule; // its second half
    map(place, granule, loose);
    check(cuMemsetD32(whole, 17, 2 * granule / 4), "cuMemsetD32");
    check(cuMemsetD32(place, 23, granule / 4), "cuMemsetD32");
    check(cudaDeviceSynchronize(), "synchronisation"); // fills do not wait
    check(cuMemUnmap(place, granule), "cuMemUnmap");
    check(cudaMallocManaged(&managed, words * sizeof(unsigned)),
          "cudaMallocManaged");
    for (int i = 0; i < words; ++i)
      managed[i] = i;
  }

  void map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle what) {
    check(cuMemMap(at, bytes, 0, what, 0), "cuMemMap");
    check(cuMemSetAccess(at, bytes, &access, 1), "cuMemSetAccess");
  }

  uint64_t round(int number, uint64_t sum) {
    map(place, granule, loose);
    churn<<<words / 256, 256>>>(
        reinterpret_cast<unsigned*>(whole), reinterpret_cast<unsigned*>(twin),
        reinterpret_cast<unsigned*>(place), managed, number);
    std::vector<unsigned> got(words);
    for (auto at : {whole, whole + granule, place}) {
      check(cuMemcpyDtoH(got.data(), at, words * sizeof(unsigned)),
            "copy of placed memory");
      sum = hash(got.data(), words * sizeof(unsigned), sum);
    }
    check(cuMemUnmap(place, granule), "cuMemUnmap");
    managed[number % words] += number;
    return hash(managed, words * sizeof(unsigned), sum);
  }
};

/// Makes a graph of a round's kernels.
static cudaGraphExec_t make_graph(cudaStream_t stream, unsigned* values) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  mix<<<n / 256, 256, 0, stream>>>(values);
  count<<<1, 1, 0, stream>>>();
  shuffle<<<n / 256, 256, dynamic_shared, stream>>>(values);
  check(cudaStreamEndCapture(stream, &graph), "end of capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  return exec;
}

/// Holds memory that graphs allocate: some that they free, and some that exists
/// from one round to the next, or is freed and trimmed.
struct graph_memory {
  unsigned *kept = nullptr, *passing = nullptr;
  cudaGraphExec_t exec = nullptr;
  bool is_there = false;

  graph_memory(cudaStream_t stream, const unsigned* values) {
    cudaGraph_t graph;
    auto bytes = n * sizeof(unsigned);
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
          "capture");
    check(cudaMallocAsync(&passing, bytes, stream), "captured allocation");
    check(cudaMemcpyAsync(passing, values, bytes, cudaMemcpyDeviceToDevice,
                          stream),
          "captured copy");
    check(cudaMallocAsync(&kept, bytes, stream), "captured allocation");
    mix<<<n / 256, 256, 0, stream>>>(passing);
    check(
        cudaMemcpyAsync(kept, passing, bytes, cudaMemcpyDeviceToDevice, stream),
        "captured copy");
    check(cudaFreeAsync(passing, stream), "captured free");
    check(cudaStreamEndCapture(stream, &graph), "end of capture");
    check(cudaGraphInstantiate(&exec, graph,
                               cudaGraphInstantiateFlagAutoFreeOnLaunch),
          "cudaGraphInstantiate");
  }

  uint64_t round(cudaStream_t stream, int number, uint64_t sum) {
    if (is_there) {
      std::vector<unsigned> got(n);
      check(cudaMemcpyAsync(got.data(), kept, n * sizeof(unsigned),
                            cudaMemcpyDeviceToHost, stream),
            "copy of a graph's memory");
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      sum = hash(got.data(), n * sizeof(unsigned), sum);
    }
    check(cudaGraphLaunch(exec, stream), "launch of a graph with memory");
    is_there = number % 3 != 0;
    if (!is_there) {
      check(cudaFreeAsync(kept, stream), "free of a graph's memory");
      check(cudaDeviceGraphMemTrim(0), "cudaDeviceGraphMemTrim");
    }
    return sum;
  }
};

__global__ void fill(unsigned* to, unsigned seed) {
  size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  to[i] = (static_cast<unsigned>(i) + seed) * 2654435761u;
}

/// Holds further memory, of which each round checks one place.
struct ballast {
  unsigned* at = nullptr;
  size_t words = 0;

  explicit ballast(size_t mebibytes) : words(mebibytes << 18) {
    if (words == 0)
      return;
    check(cudaMalloc(&at, words * 4), "cudaMalloc");
    fill<<<static_cast<unsigned>(words / 256), 256>>>(at, 1);
  }

  uint64_t round(int number, uint64_t sum) {
    if (words == 0)
      return sum;
    unsigned got[64];
    auto* from = at + (number * size_t{1299709}) % (words - 64);
    check(cudaMemcpy(got, from, sizeof got, cudaMemcpyDeviceToHost),
          "copy of ballast");
    return hash(got, sizeof got, sum);
  }
};

static float between(cudaEvent_t a, cudaEvent_t b) {
  float ms = -1;
  check(cudaEventElapsedTime(&ms, a, b), "cudaEventElapsedTime");
  return ms;
}

int main(int argc, char** argv) {
  bool clocked = argc > 1 && std::string{argv[1]} == "clock";
  bool loose = clocked || (argc > 1 && std::string{argv[1]} == "loose");
  int first = loose ? 2 : 1;
  int rounds = argc > first ? std::atoi(argv[first]) : 10;
  int pause = argc > first + 1 ? std::atoi(argv[first + 1]) : 0;

  unsigned* values;
  check(cudaMalloc(&values, n * sizeof(unsigned)), "cudaMalloc");
  check(cudaMemset(values, 3, n * sizeof(unsigned)), "cudaMemset");
  unsigned one = 2654435761u;
  check(cudaMemcpyToSymbol(factor, &one, sizeof one), "cudaMemcpyToSymbol");
  check(cudaFuncSetAttribute(shuffle,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             dynamic_shared),
        "cudaFuncSetAttribute");
  prepare<<<1, 1>>>();
  unsigned* pinned;
  check(cudaMallocHost(&pinned, n * sizeof(unsigned)), "cudaMallocHost");
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cudaEvent_t begin, end, now;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaEventCreate(&now), "event");
  pictures both;
  placed_memory placed;
  ballast heavy(argc > first + 2 ? std::atoi(argv[first + 2]) : 0);
  check(cudaDeviceSynchronize(), "first synchronisation");
  auto graph = make_graph(stream, values);
  graph_memory passing(stream, values);
  check(cudaEventRecord(begin, stream), "record");
  check(cudaGraphLaunch(graph, stream), "first launch of the graph");
  check(cudaEventRecord(end, stream), "record");
  check(cudaStreamSynchronize(stream), "synchronisation");
  float at_first = between(begin, end);
  unsigned* dev_stamp;
  check(cudaMalloc(&dev_stamp, sizeof(unsigned)), "cudaMalloc");

  float last = 0;
  for (int round = 1; round <= rounds; ++round) {
    check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
    int k = round % 2;
    paint<<<side, side, 0, stream>>>(both.from[k], both.to[1 - k], values);
    check(cudaEventRecord(now, stream), "record");
    check(cudaMemcpyAsync(pinned, values, n * sizeof(unsigned),
                          cudaMemcpyDeviceToHost, stream),
          "copy to pinned memory");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    // This is copied back to the device from pinned memory.
    pinned[round % n] += round;
    check(cudaMemcpyAsync(values, pinned, n * sizeof(unsigned),
                          cudaMemcpyHostToDevice, stream),
          "copy from pinned memory");
    std::vector<float> picture(side * side);
    check(cudaMemcpy2DFromArrayAsync(picture.data(), side * 4,
                                     both.arrays[1 - k], 0, 0, side * 4, side,
                                     cudaMemcpyDeviceToHost, stream),
          "copy from an array");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    auto sum = hash(pinned, n * sizeof(unsigned), 14695981039346656037ull);
    sum = hash(picture.data(), picture.size() * 4, sum);
    sum = heavy.round(round, placed.round(round, sum));
    sum = passing.round(stream, round, sum);
    if (clocked) {
      unsigned host;
      stamp<<<1, 1>>>(dev_stamp);
      check(cudaMemcpy(&host, dev_stamp, sizeof host, cudaMemcpyDeviceToHost),
            "copy of the clock");
      std::printf("round %d\n", round);
    } else {
      std::printf("round %d %016llx\n", round,
                  static_cast<unsigned long long>(sum));
    }
    // Recorded times do not change later, and do not decrease.
    float again = between(begin, end), since = between(begin, now);
    if (!loose && (again < at_first - 0.001f || again > at_first + 0.001f ||
                   since < last)) {
      std::fprintf(stderr, "mover: times: %f then %f, %f then %f\n", at_first,
                   again, last, since);
      return 7;
    }
    last = since;
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
  std::printf("end\n");
  return 0;
}
