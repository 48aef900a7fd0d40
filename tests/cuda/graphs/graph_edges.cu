// nvcc: -lcuda
// Edges of graphs with edge data: a kernel may start when the previous one
// allows it, or has begun.
#include "../check.hpp"

#include <cuda.h>

#include <cstdio>
#include <cstring>

#define OK(call) EXPECT((call) == CUDA_SUCCESS)

__global__ void first(int* x) {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  atomicAdd(x, 1);
}
__global__ void second(int* x, int* seen) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (threadIdx.x == 0)
    *seen = *x;
}
__global__ void nothing() {}

static int* x;
static int* seen;

static CUgraphNodeParams kernel_of(const void* function, void** parameters,
                                   unsigned threads) {
  CUgraphNodeParams out = {};
  out.type = CU_GRAPH_NODE_TYPE_KERNEL;
  CUfunction f;
  CHECK(cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(&f), function));
  out.kernel.func = f;
  out.kernel.gridDimX = out.kernel.gridDimY = out.kernel.gridDimZ = 1;
  out.kernel.blockDimX = threads;
  out.kernel.blockDimY = out.kernel.blockDimZ = 1;
  out.kernel.kernelParams = parameters;
  return out;
}

static void* of_first[] = {&x};
static void* of_second[] = {&x, &seen};

static CUgraphNode add(CUgraph to, const void* function, void** parameters) {
  CUgraphNode out;
  auto what = kernel_of(function, parameters, 64);
  OK(cuGraphAddNode(&out, to, nullptr, nullptr, 0, &what));
  return out;
}

// -- what runs

static void runs(unsigned char port) {
  CUgraph graph, copy;
  CUgraphExec exec;
  OK(cuGraphCreate(&graph, 0));
  auto a = add(graph, reinterpret_cast<const void*>(first), of_first);
  CUgraphNode b;
  CUgraphEdgeData edge = {};
  edge.from_port = port;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  auto what = kernel_of(reinterpret_cast<const void*>(second), of_second, 64);
  OK(cuGraphAddNode(&b, graph, &a, &edge, 1, &what));

  size_t count = 1;
  CUgraphNode before, from, to;
  CUgraphEdgeData data;
  EXPECT(cuGraphNodeGetDependencies(b, &before, nullptr, &count) ==
         CUDA_ERROR_LOSSY_QUERY);
  OK(cuGraphNodeGetDependencies(b, nullptr, nullptr, &count));
  EXPECT(count == 1);
  OK(cuGraphNodeGetDependencies(b, &before, &data, &count));
  EXPECT(before == a && std::memcmp(&data, &edge, sizeof edge) == 0);
  OK(cuGraphNodeGetDependentNodes(a, &before, &data, &count));
  EXPECT(before == b && data.from_port == port);
  OK(cuGraphClone(&copy, graph));
  count = 1;
  OK(cuGraphGetEdges(copy, &from, &to, &data, &count));
  EXPECT(count == 1 && std::memcmp(&data, &edge, sizeof edge) == 0);

  CHECK(cudaMemset(x, 0, sizeof *x));
  OK(cuGraphInstantiate(&exec, copy, 0));
  for (int i = 1; i <= 3; ++i) {
    OK(cuGraphLaunch(exec, nullptr));
    int got = 0;
    CHECK(cudaMemcpy(&got, seen, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 64 * i);
  }
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(copy));
  OK(cuGraphDestroy(graph));
}

// -- what is refused, and with what

static void tells(const char* what, CUresult code) {
  const char* name = "?";
  cuGetErrorName(code, &name);
  std::printf("%-42s %s\n", what, name);
}

static CUresult connected(CUgraph in, CUgraphNode a, CUgraphNode b,
                          CUgraphEdgeData edge) {
  auto code = cuGraphAddDependencies(in, &a, &b, &edge, 1);
  if (code == CUDA_SUCCESS)
    OK(cuGraphRemoveDependencies(in, &a, &b, &edge, 1));
  return code;
}

static void refusals() {
  CUgraph graph;
  OK(cuGraphCreate(&graph, 0));
  auto a = add(graph, reinterpret_cast<const void*>(nothing), nullptr);
  auto b = add(graph, reinterpret_cast<const void*>(nothing), nullptr);
  CUgraphNode empty;
  OK(cuGraphAddEmptyNode(&empty, graph, nullptr, 0));
  for (unsigned char type = 0; type < 3; ++type)
    for (unsigned char port = 0; port < 4; ++port)
      for (unsigned char to = 0; to < 2; ++to) {
        char text[64];
        CUgraphEdgeData edge = {};
        edge.from_port = port;
        edge.to_port = to;
        edge.type = type;
        std::snprintf(text, sizeof text, "type %d port %d to %d", type, port,
                      to);
        tells(text, connected(graph, a, b, edge));
        if (to == 0 && type < 2 && port < 3) {
          std::snprintf(text, sizeof text, "type %d port %d from empty", type,
                        port);
          tells(text, connected(graph, empty, b, edge));
          std::snprintf(text, sizeof text, "type %d port %d to empty", type,
                        port);
          tells(text, connected(graph, a, empty, edge));
        }
      }
  CUgraphEdgeData edge = {};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  edge.reserved[2] = 1;
  tells("reserved", connected(graph, a, b, edge));
  edge.reserved[2] = 0;
  OK(cuGraphAddDependencies(graph, &a, &b, &edge, 1));
  tells("added again", cuGraphAddDependencies(graph, &a, &b, &edge, 1));
  tells("added plainly", cuGraphAddDependencies(graph, &a, &b, nullptr, 1));
  tells("removed plainly",
        cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1));
  tells("removed", cuGraphRemoveDependencies(graph, &a, &b, &edge, 1));
  tells("removed again", cuGraphRemoveDependencies(graph, &a, &b, &edge, 1));
  OK(cuGraphDestroy(graph));
}

int main() {
  CHECK(cudaMalloc(&x, sizeof *x));
  CHECK(cudaMalloc(&seen, sizeof *seen));
  runs(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
  runs(CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
  refusals();
  std::puts("ok");
}
