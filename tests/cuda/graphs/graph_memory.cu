// Graphs that allocate and free memory: built by hand and captured, launched
// again, freed outside of the graph, trimmed, and beyond the free memory.
#include "../check.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int n = 1 << 14;
constexpr size_t bytes = n * sizeof(int);

__global__ void ramp(int* p, int first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    p[i] = first + i;
}

__global__ void add_to(const int* p, int* sum) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    sum[i] += p[i];
}

// Expects an error, and clears it for the next call.
#define EXPECT_ERROR(call, code)                                               \
  do {                                                                         \
    EXPECT((call) == (code));                                                  \
    (void)cudaGetLastError();                                                  \
  } while (0)

cudaStream_t stream;

cudaMemAllocNodeParams wanted(size_t size) {
  cudaMemAllocNodeParams out{};
  out.poolProps.allocType = cudaMemAllocationTypePinned;
  out.poolProps.location.type = cudaMemLocationTypeDevice;
  out.poolProps.location.id = 0;
  out.bytesize = size;
  return out;
}

cudaGraph_t new_graph() {
  cudaGraph_t g;
  CHECK(cudaGraphCreate(&g, 0));
  return g;
}

void* add_allocation(cudaGraph_t g, cudaGraphNode_t after, size_t size,
                     cudaGraphNode_t& out) {
  auto params = wanted(size);
  CHECK(cudaGraphAddMemAllocNode(&out, g, &after, after ? 1 : 0, &params));
  EXPECT(params.dptr != nullptr);
  return params.dptr;
}

cudaGraphNode_t add_free(cudaGraph_t g, cudaGraphNode_t after, void* what) {
  cudaGraphNode_t out;
  CHECK(cudaGraphAddMemFreeNode(&out, g, &after, after ? 1 : 0, what));
  return out;
}

cudaGraphNode_t add_kernel(cudaGraph_t g, cudaGraphNode_t after, void* kernel,
                           void** arguments) {
  cudaKernelNodeParams params{};
  params.func = kernel;
  params.gridDim = n / 256;
  params.blockDim = 256;
  params.kernelParams = arguments;
  cudaGraphNode_t out;
  CHECK(cudaGraphAddKernelNode(&out, g, &after, after ? 1 : 0, &params));
  return out;
}

cudaGraphExec_t instantiate(cudaGraph_t g, unsigned flags = 0) {
  cudaGraphExec_t out;
  CHECK(cudaGraphInstantiate(&out, g, flags));
  return out;
}

void launch(cudaGraphExec_t x) {
  CHECK(cudaGraphLaunch(x, stream));
}

void drop(cudaGraphExec_t x, cudaGraph_t g) {
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(x));
  CHECK(cudaGraphDestroy(g));
}

void expect_ramp(const int* device, int first, int times = 1) {
  std::vector<int> got(n, -1);
  CHECK(cudaMemcpyAsync(got.data(), device, bytes, cudaMemcpyDeviceToHost,
                        stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; ++i)
    EXPECT(got[i] == (first + i) * times);
}

size_t attribute(cudaGraphMemAttributeType which) {
  unsigned long long out = 0;
  CHECK(cudaDeviceGetGraphMemAttribute(0, which, &out));
  return out;
}

// Builds a graph of an allocation and a kernel that fills it, without a free.
struct filler {
  cudaGraph_t graph = new_graph();
  cudaGraphNode_t allocation{}, kernel{};
  int* p;

  explicit filler(int first) {
    p = static_cast<int*>(add_allocation(graph, nullptr, bytes, allocation));
    void* arguments[] = {&p, &first};
    kernel =
        add_kernel(graph, allocation, reinterpret_cast<void*>(ramp), arguments);
  }
};

// Tests memory that the graph itself frees.
void by_hand() {
  int* sum;
  CHECK(cudaMalloc(&sum, bytes));
  CHECK(cudaMemsetAsync(sum, 0, bytes, stream));
  filler f{3};
  void* arguments[] = {&f.p, &sum};
  auto added =
      add_kernel(f.graph, f.kernel, reinterpret_cast<void*>(add_to), arguments);
  auto freed = add_free(f.graph, added, f.p);
  // A second allocation, whose lifetime does not overlap.
  cudaGraphNode_t other;
  auto* q = static_cast<int*>(add_allocation(f.graph, freed, bytes, other));
  int first = 3;
  void* of_other[] = {&q, &first};
  auto filled =
      add_kernel(f.graph, other, reinterpret_cast<void*>(ramp), of_other);
  void* add_other[] = {&q, &sum};
  filled =
      add_kernel(f.graph, filled, reinterpret_cast<void*>(add_to), add_other);
  // Copies and fills may name memory that is not allocated yet.
  int word = 1, *pinned;
  CHECK(cudaMallocHost(&pinned, sizeof(int)));
  cudaGraphNode_t copied;
  CHECK(cudaGraphAddMemcpyNode1D(&copied, f.graph, &filled, 1, pinned, q + 5,
                                 sizeof(int), cudaMemcpyDeviceToHost));
  cudaMemsetParams zeros{};
  zeros.dst = q;
  zeros.elementSize = 4;
  zeros.width = n;
  zeros.height = 1;
  CHECK(cudaGraphAddMemsetNode(&filled, f.graph, &copied, 1, &zeros));
  CHECK(cudaGraphAddMemcpyNode1D(&copied, f.graph, &filled, 1, &word, q + 5,
                                 sizeof(int), cudaMemcpyDeviceToHost));
  add_free(f.graph, copied, q);

  cudaMemAllocNodeParams got{};
  CHECK(cudaGraphMemAllocNodeGetParams(f.allocation, &got));
  EXPECT(got.dptr == f.p && got.bytesize == bytes);
  void* at = nullptr;
  CHECK(cudaGraphMemFreeNodeGetParams(freed, &at));
  EXPECT(at == f.p);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(freed, &type));
  EXPECT(type == cudaGraphNodeTypeMemFree);

  auto x = instantiate(f.graph);
  for (int i = 0; i < 5; ++i)
    launch(x);
  expect_ramp(sum, 3, 10);
  EXPECT(*pinned == 8 && word == 0);
  EXPECT_ERROR(cudaFree(f.p), cudaErrorInvalidValue);
  drop(x, f.graph);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(sum));
}

// Captures allocations from a stream, of which one is not freed.
void captured() {
  int *sum, *part, *kept;
  CHECK(cudaMalloc(&sum, bytes));
  CHECK(cudaMemsetAsync(sum, 0, bytes, stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&part, bytes, stream));
  ramp<<<n / 256, 256, 0, stream>>>(part, 1);
  add_to<<<n / 256, 256, 0, stream>>>(part, sum);
  CHECK(cudaMallocAsync(&kept, bytes, stream));
  CHECK(cudaMemcpyAsync(kept, part, bytes, cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaMemsetAsync(part, 0, bytes, stream));
  CHECK(cudaFreeAsync(part, stream));
  cudaGraph_t g;
  CHECK(cudaStreamEndCapture(stream, &g));
  size_t count = 0;
  CHECK(cudaGraphGetNodes(g, nullptr, &count));
  EXPECT(count == 7);
  auto x = instantiate(g);
  for (int i = 0; i < 3; ++i) {
    launch(x);
    expect_ramp(kept, 1);
    CHECK(cudaFreeAsync(kept, stream));
  }
  expect_ramp(sum, 1, 3);
  drop(x, g);
  CHECK(cudaFree(sum));
}

// Frees memory outside of the graph, by either call. Before that the graph
// cannot be launched again.
void kept() {
  filler f{7};
  EXPECT_ERROR(cudaFree(f.p), cudaErrorInvalidValue);
  auto x = instantiate(f.graph);
  launch(x);
  int* sum;
  CHECK(cudaMallocAsync(&sum, bytes, stream));
  CHECK(cudaMemsetAsync(sum, 0, bytes, stream));
  add_to<<<n / 256, 256, 0, stream>>>(f.p, sum);
  EXPECT_ERROR(cudaGraphLaunch(x, stream), cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(f.p, stream));
  expect_ramp(sum, 7);
  launch(x);
  expect_ramp(f.p, 7); // at the same address
  CHECK(cudaFree(f.p));
  EXPECT_ERROR(cudaFree(f.p), cudaErrorInvalidValue);
  launch(x);
  // Memory in use outlives its graph.
  drop(x, f.graph);
  expect_ramp(f.p, 7);
  CHECK(cudaFree(f.p));
  CHECK(cudaFreeAsync(sum, stream));
}

void freed_by_a_launch() {
  filler f{11};
  auto x = instantiate(f.graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  for (int i = 0; i < 3; ++i) {
    launch(x);
    expect_ramp(f.p, 11);
  }
  CHECK(cudaFree(f.p));
  launch(x);
  CHECK(cudaFreeAsync(f.p, stream));
  drop(x, f.graph);
}

void freed_by_another_graph() {
  filler f{13};
  auto other = new_graph();
  add_free(other, nullptr, f.p);
  cudaGraphNode_t node;
  EXPECT_ERROR(cudaGraphAddMemFreeNode(&node, f.graph, nullptr, 0, f.p),
               cudaErrorInvalidValue);
  auto x = instantiate(f.graph), y = instantiate(other);
  EXPECT_ERROR(cudaGraphLaunch(y, stream), cudaErrorInvalidValue);
  for (int i = 0; i < 3; ++i) {
    launch(x);
    expect_ramp(f.p, 13);
    launch(y);
  }
  EXPECT_ERROR(cudaFree(f.p), cudaErrorInvalidValue);
  drop(x, f.graph);
  drop(y, other);
}

void what_is_not_allowed() {
  filler f{1};
  auto other = new_graph();
  cudaGraph_t clone;
  cudaGraphNode_t node;
  EXPECT_ERROR(cudaGraphClone(&clone, f.graph), cudaErrorNotSupported);
  EXPECT_ERROR(cudaGraphDestroyNode(f.kernel), cudaErrorNotSupported);
  EXPECT_ERROR(cudaGraphRemoveDependencies(f.graph, &f.allocation, &f.kernel,
                                           nullptr, 1),
               cudaErrorNotSupported);
  EXPECT_ERROR(cudaGraphAddChildGraphNode(&node, other, nullptr, 0, f.graph),
               cudaErrorNotSupported);
  auto none = wanted(0);
  EXPECT_ERROR(cudaGraphAddMemAllocNode(&node, other, nullptr, 0, &none),
               cudaErrorInvalidValue);
  int* plain;
  CHECK(cudaMalloc(&plain, bytes));
  EXPECT_ERROR(cudaGraphAddMemFreeNode(&node, other, nullptr, 0, plain),
               cudaErrorInvalidValue);
  CHECK(cudaFree(plain));
  auto x = instantiate(f.graph);
  cudaGraphExec_t y;
  EXPECT_ERROR(cudaGraphInstantiate(&y, f.graph, 0), cudaErrorNotSupported);
  CHECK(cudaGraphExecDestroy(x));
  x = instantiate(f.graph);
  drop(x, f.graph);
  CHECK(cudaGraphDestroy(other));
}

// A moved child graph keeps its memory.
void moved_child() {
  filler f{17};
  auto parent = new_graph();
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeGraph;
  params.graph.graph = f.graph;
  params.graph.ownership = cudaGraphChildGraphOwnershipMove;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, parent, nullptr, nullptr, 0, &params));
  EXPECT_ERROR(cudaGraphDestroy(f.graph), cudaErrorInvalidValue);
  auto x = instantiate(parent);
  for (int i = 0; i < 2; ++i) {
    launch(x);
    expect_ramp(f.p, 17);
    CHECK(cudaFree(f.p));
  }
  drop(x, parent);
}

void attributes() {
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceGraphMemTrim(0));
  EXPECT(attribute(cudaGraphMemAttrUsedMemCurrent) == 0);
  EXPECT(attribute(cudaGraphMemAttrReservedMemCurrent) == 0);
  EXPECT(attribute(cudaGraphMemAttrUsedMemHigh) >= bytes);
  unsigned long long zero = 0, five = 5;
  EXPECT_ERROR(
      cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &five),
      cudaErrorInvalidValue);
  EXPECT_ERROR(
      cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero),
      cudaErrorInvalidValue);
  CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
  CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh,
                                       &zero));
  EXPECT(attribute(cudaGraphMemAttrUsedMemHigh) == 0);
  EXPECT(attribute(cudaGraphMemAttrReservedMemHigh) == 0);

  filler f{19};
  add_free(f.graph, f.kernel, f.p);
  auto x = instantiate(f.graph);
  launch(x);
  CHECK(cudaStreamSynchronize(stream));
  auto high = attribute(cudaGraphMemAttrUsedMemHigh);
  EXPECT(high >= bytes);
  EXPECT(attribute(cudaGraphMemAttrReservedMemHigh) >= high);
  EXPECT(attribute(cudaGraphMemAttrReservedMemCurrent) >= bytes);
  CHECK(cudaDeviceGraphMemTrim(0));
  EXPECT(attribute(cudaGraphMemAttrReservedMemCurrent) == 0);
  EXPECT(attribute(cudaGraphMemAttrReservedMemHigh) >= high);
  // The next launch allocates memory again.
  launch(x);
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(attribute(cudaGraphMemAttrReservedMemCurrent) >= bytes);
  drop(x, f.graph);
  EXPECT_ERROR(cudaDeviceGraphMemTrim(99), cudaErrorInvalidDevice);
}

// Running work keeps its memory while memory is trimmed.
void trimmed_between() {
  int* sum;
  CHECK(cudaMalloc(&sum, bytes));
  CHECK(cudaMemsetAsync(sum, 0, bytes, stream));
  filler f{23};
  void* arguments[] = {&f.p, &sum};
  auto added =
      add_kernel(f.graph, f.kernel, reinterpret_cast<void*>(add_to), arguments);
  add_free(f.graph, added, f.p);
  auto x = instantiate(f.graph);
  for (int i = 0; i < 8; ++i) {
    launch(x);
    CHECK(cudaDeviceGraphMemTrim(0));
    int* other;
    CHECK(cudaMallocAsync(&other, bytes, stream));
    CHECK(cudaMemsetAsync(other, 0xff, bytes, stream));
    CHECK(cudaFreeAsync(other, stream));
  }
  expect_ramp(sum, 23, 8);
  drop(x, f.graph);
  CHECK(cudaFree(sum));
}

// There is room for both graphs one after the other, but not at the same time.
void beyond_what_there_is() {
  size_t free_now, total;
  CHECK(cudaDeviceGraphMemTrim(0));
  CHECK(cudaMemGetInfo(&free_now, &total));
  auto part = free_now / 10 * 6;
  auto g = new_graph();
  cudaGraphNode_t node = nullptr;
  auto too_large = wanted(total * 4);
  EXPECT_ERROR(cudaGraphAddMemAllocNode(&node, g, nullptr, 0, &too_large),
               cudaErrorMemoryAllocation);
  node = nullptr;
  for (int i = 0; i < 2; ++i) {
    auto* p = add_allocation(g, node, part, node);
    node = add_free(g, node, p);
  }
  auto x = instantiate(g);
  launch(x);
  launch(x);
  drop(x, g);
  CHECK(cudaDeviceGraphMemTrim(0));

  g = new_graph();
  auto* p = add_allocation(g, nullptr, part, node);
  auto* q = add_allocation(g, node, part, node);
  x = instantiate(g);
  EXPECT_ERROR(cudaGraphLaunch(x, stream), cudaErrorMemoryAllocation);
  EXPECT_ERROR(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_ERROR(cudaFree(q), cudaErrorInvalidValue);
  drop(x, g);
}

int main() {
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  by_hand();
  captured();
  kept();
  freed_by_a_launch();
  freed_by_another_graph();
  what_is_not_allowed();
  moved_child();
  attributes();
  trimmed_between();
  beyond_what_there_is();
  CHECK(cudaStreamDestroy(stream));
  printf("ok\n");
  return 0;
}
