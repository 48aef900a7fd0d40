// nvcc: -lcuda
// Tests every way to allocate a GPU's memory against a quota:
//
//   quota MIB
//
// While all but 100 MiB of MIB are taken, allocating 200 MiB must fail as out
// of memory in every way. With nothing taken it must succeed, and the memory
// must hold what is written. Prints a line for each way.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t wanted = 200 * mib;

void require(bool good, const char* what, const char* way) {
  if (good)
    return;
  std::fprintf(stderr, "quota: %s: %s\n", way, what);
  std::exit(1);
}

/// Describes a way to allocate and to free. The address is null if the memory
/// cannot be written directly.
struct way {
  const char* name;
  std::function<cudaError_t(void** at)> get;
  std::function<void(void* at)> give;
};

void free_plain(void* at) {
  cudaFree(at);
}

void free_async(void* at) {
  cudaFreeAsync(at, nullptr);
  cudaStreamSynchronize(nullptr);
  cudaMemPool_t pool = nullptr;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  cudaMemPoolTrimTo(pool, 0);
}

cudaError_t of_driver(CUresult x) {
  return x == CUDA_SUCCESS               ? cudaSuccess
         : x == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation
                                         : cudaErrorUnknown;
}

const cudaChannelFormatDesc texel = {32, 0, 0, 0, cudaChannelFormatKindFloat};
constexpr std::size_t side = 7240; // of floats, squared: 200 MiB

way pitched() {
  return {"cudaMallocPitch",
          [](void** at) {
            std::size_t pitch = 0;
            return cudaMallocPitch(at, &pitch, mib, wanted / mib);
          },
          free_plain};
}

way cubic() {
  return {"cudaMalloc3D",
          [](void** at) {
            cudaPitchedPtr p{};
            auto code = cudaMalloc3D(&p, make_cudaExtent(mib, 20, 10));
            *at = p.ptr;
            return code;
          },
          free_plain};
}

cudaArray_t array = nullptr;
cudaMipmappedArray_t levels = nullptr;

way flat_array() {
  return {"cudaMallocArray",
          [](void**) { return cudaMallocArray(&array, &texel, side, side); },
          [](void*) { cudaFreeArray(array); }};
}

way deep_array() {
  return {"cudaMalloc3DArray",
          [](void**) {
            return cudaMalloc3DArray(&array, &texel,
                                     make_cudaExtent(1024, 1024, 50));
          },
          [](void*) { cudaFreeArray(array); }};
}

way mipmaps() {
  return {"cudaMallocMipmappedArray",
          [](void**) {
            return cudaMallocMipmappedArray(&levels, &texel,
                                            make_cudaExtent(6400, 6400, 0), 3);
          },
          [](void*) { cudaFreeMipmappedArray(levels); }};
}

way own_pool() {
  static cudaMemPool_t pool = nullptr;
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  require(cudaMemPoolCreate(&pool, &props) == cudaSuccess, "no pool", "pool");
  return {"cudaMallocFromPoolAsync",
          [](void** at) {
            return cudaMallocFromPoolAsync(at, wanted, pool, nullptr);
          },
          [](void* at) {
            free_async(at);
            cudaMemPoolTrimTo(pool, 0);
          }};
}

CUmemGenericAllocationHandle handle = 0;

way created() {
  return {"cuMemCreate",
          [](void**) {
            CUmemAllocationProp what{};
            what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            what.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
            return of_driver(cuMemCreate(&handle, wanted, &what, 0));
          },
          [](void*) { cuMemRelease(handle); }};
}

CUmodule module_ = nullptr;

way variable() {
  return {"a module's variable",
          [](void** at) {
            auto text = ".version 8.0\n.target sm_70\n.address_size 64\n"
                        ".visible .global .align 8 .b8 big[" +
                        std::to_string(wanted) + "];\n";
            if (auto code = cuModuleLoadData(&module_, text.c_str());
                code != CUDA_SUCCESS)
              return of_driver(code);
            CUdeviceptr place = 0;
            std::size_t bytes = 0;
            cuModuleGetGlobal(&place, &bytes, module_, "big");
            *at = reinterpret_cast<void*>(place);
            return cudaSuccess;
          },
          [](void*) { cuModuleUnload(module_); }};
}

cudaGraph_t graph = nullptr;
cudaGraphExec_t exec = nullptr;

/// Returns the result of launching the graph that was made.
cudaError_t launch_graph() {
  auto code = cudaGraphInstantiate(&exec, graph, 0);
  if (code == cudaSuccess)
    code = cudaGraphLaunch(exec, nullptr);
  auto end = cudaStreamSynchronize(nullptr);
  return code != cudaSuccess ? code : end;
}

void free_graph(void* at) {
  cudaFree(at);
  if (exec != nullptr)
    cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaDeviceGraphMemTrim(0);
  exec = nullptr;
}

way graph_node() {
  return {"cudaGraphAddMemAllocNode",
          [](void** at) {
            cudaGraphCreate(&graph, 0);
            cudaMemAllocNodeParams what{};
            what.poolProps.allocType = cudaMemAllocationTypePinned;
            what.poolProps.location = {cudaMemLocationTypeDevice, 0};
            what.bytesize = wanted;
            cudaGraphNode_t node = nullptr;
            auto code =
                cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &what);
            *at = what.dptr;
            return code == cudaSuccess ? launch_graph() : code;
          },
          free_graph};
}

way captured() {
  return {"cudaMallocAsync, captured",
          [](void** at) {
            cudaStream_t stream = nullptr;
            cudaStreamCreate(&stream);
            cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
            auto code = cudaMallocAsync(at, wanted, stream);
            cudaStreamEndCapture(stream, &graph);
            cudaStreamDestroy(stream);
            return code == cudaSuccess ? launch_graph() : code;
          },
          free_graph};
}

const way every_way[] = {
    {"cudaMalloc", [](void** at) { return cudaMalloc(at, wanted); },
     free_plain},
    pitched(),
    cubic(),
    {"cudaMallocManaged",
     [](void** at) { return cudaMallocManaged(at, wanted); }, free_plain},
    {"cudaMallocAsync",
     [](void** at) { return cudaMallocAsync(at, wanted, nullptr); },
     free_async},
    own_pool(),
    flat_array(),
    deep_array(),
    mipmaps(),
    created(),
    variable(),
    graph_node(),
    captured(),
};

void check_refused(const way& x) {
  void* at = nullptr;
  auto code = x.get(&at);
  if (code != cudaErrorMemoryAllocation) {
    std::fprintf(stderr, "quota: %s beyond the quota: %s\n", x.name,
                 cudaGetErrorName(code));
    std::exit(1);
  }
  if (graph != nullptr)
    free_graph(nullptr);
  graph = nullptr;
  (void)cudaGetLastError();
}

/// Checks that no other allocation can get the memory.
void require_taken(const char* way) {
  std::size_t free = 0, total = 0;
  void* more = nullptr;
  require(cudaMemGetInfo(&free, &total) == cudaSuccess &&
              free <= total - wanted,
          "is reported as free", way);
  require(cudaMalloc(&more, free + 1) == cudaErrorMemoryAllocation,
          "can be allocated twice", way);
  (void)cudaGetLastError();
}

void check_given(const way& x) {
  void* at = nullptr;
  auto code = x.get(&at);
  require(code == cudaSuccess, cudaGetErrorName(code), x.name);
  unsigned char last = 0;
  if (at != nullptr) {
    require(cudaMemset(at, 7, wanted) == cudaSuccess, "memset", x.name);
    require_taken(x.name);
    require(cudaMemcpy(&last, static_cast<char*>(at) + wanted - 1, 1,
                       cudaMemcpyDeviceToHost) == cudaSuccess &&
                last == 7,
            "holds something else", x.name);
  }
  x.give(at);
  graph = nullptr;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2)
    return 2;
  auto quota = std::strtoull(argv[1], nullptr, 10) * mib;
  std::size_t free = 0, total = 0;
  require(cudaMemGetInfo(&free, &total) == cudaSuccess && total == quota,
          "is not what was asked for", "quota");
  for (const auto& x : every_way) {
    void* most = nullptr;
    require(cudaMemGetInfo(&free, &total) == cudaSuccess, "no answer", x.name);
    require(cudaMalloc(&most, free - 100 * mib) == cudaSuccess, "most", x.name);
    check_refused(x);
    require(cudaFree(most) == cudaSuccess && cudaDeviceSynchronize() == 0,
            "giving the rest back", x.name);
    check_given(x);
    std::size_t after = 0;
    require(cudaMemGetInfo(&after, &total) == cudaSuccess && after == free,
            "not all came back", x.name);
    std::printf("%s\n", x.name);
  }
  return 0;
}
