// nvcc: -lcuda
// An executable graph changes nodes that lie in child graphs: in a graph that
// was moved there, and in the copy of a graph.
#include "../check.hpp"

#include <cstdio>

namespace {

__global__ void put(int* to, int what) {
  *to = what;
}

/// A child graph puts a value, copies it and fills a word.
struct family {
  int* from = nullptr;
  int* to = nullptr;
  int value = 1;
  void* arguments[2] = {&from, &value};
  CUcontext context = nullptr;
  CUgraph parent = nullptr, child = nullptr;
  CUgraphNode nodes[3] = {};
  CUgraphExec exec = nullptr;
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  CUDA_MEMCPY3D copy = {};
  CUDA_MEMSET_NODE_PARAMS fill = {};

  explicit family(CUgraphChildGraphNodeOwnership how, int children = 1) {
    CHECK(cudaMalloc(&from, 3 * sizeof(int)));
    CHECK(cudaMalloc(&to, 3 * sizeof(int)));
    CHECK(cudaMemset(to, 0, 3 * sizeof(int)));
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&parent, 0));
    CHECK(cuGraphCreate(&child, 0));
    add_nodes();
    for (int i = 0; i < children; ++i) {
      CUgraphNodeParams params = {};
      params.type = CU_GRAPH_NODE_TYPE_GRAPH;
      params.graph.graph = child;
      params.graph.ownership = how;
      CHECK(cuGraphAddNode(&holders[i], parent, nullptr, nullptr, 0, &params));
    }
    CHECK(cuGraphInstantiate(&exec, parent, 0));
  }

  void add_nodes() {
    CHECK(cudaGetFuncBySymbol(&kernel.func, reinterpret_cast<void*>(put)));
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = arguments;
    CHECK(cuGraphAddKernelNode(&nodes[0], child, nullptr, 0, &kernel));
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = reinterpret_cast<CUdeviceptr>(from);
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(to);
    copy.WidthInBytes = sizeof(int);
    copy.Height = copy.Depth = 1;
    CHECK(cuGraphAddMemcpyNode(&nodes[1], child, &nodes[0], 1, &copy, context));
    fill.dst = reinterpret_cast<CUdeviceptr>(to + 2);
    fill.elementSize = 4;
    fill.width = fill.height = 1;
    fill.value = 5;
    CHECK(cuGraphAddMemsetNode(&nodes[2], child, &nodes[1], 1, &fill, context));
  }

  /// Changes these nodes, and returns the code that all of them get.
  CUresult change(const CUgraphNode* which) {
    value = 7;
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(to + 1);
    fill.value = 9;
    auto code = cuGraphExecKernelNodeSetParams(exec, which[0], &kernel);
    EXPECT(cuGraphExecMemcpyNodeSetParams(exec, which[1], &copy, context) ==
           code);
    EXPECT(cuGraphExecMemsetNodeSetParams(exec, which[2], &fill, context) ==
           code);
    EXPECT(cuGraphNodeSetEnabled(exec, which[2], 1) == code);
    return code;
  }

  void launch(int first, int second, int third) {
    CHECK(cuGraphLaunch(exec, nullptr));
    int got[3];
    CHECK(cudaMemcpy(got, to, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got[0] == first && got[1] == second && got[2] == third);
  }

  void inner_nodes(int of, CUgraphNode (&out)[3]) {
    CUgraph inner = nullptr;
    CHECK(cuGraphChildGraphNodeGetGraph(holders[of], &inner));
    size_t count = 3;
    CHECK(cuGraphGetNodes(inner, out, &count));
    EXPECT(count == 3);
  }

  void end() {
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(parent));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
  }

  CUgraphNode holders[2] = {};
};

void moved() {
  family x{CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
  x.launch(1, 0, 5);
  CHECK(x.change(x.nodes));
  x.launch(1, 7, 9);
  // The graph itself is as before.
  CUgraphExecUpdateResultInfo info = {};
  CHECK(cuGraphExecUpdate(x.exec, x.parent, &info));
  x.launch(1, 7, 5);
  x.end();
}

// A graph and its copy have different nodes, and so have two copies.
void copied() {
  family x{CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, 2};
  x.launch(1, 0, 5);
  EXPECT(x.change(x.nodes) == CUDA_ERROR_INVALID_VALUE);
  x.launch(1, 0, 5);
  CUgraphNode first[3], second[3];
  x.inner_nodes(0, first);
  x.inner_nodes(1, second);
  CHECK(cuGraphNodeSetEnabled(x.exec, second[0], 0));
  CHECK(cuGraphNodeSetEnabled(x.exec, second[1], 0));
  CHECK(cuGraphNodeSetEnabled(x.exec, second[2], 0));
  CHECK(x.change(first));
  x.launch(1, 7, 9);
  CHECK(cuGraphDestroy(x.child));
  x.end();
}

} // namespace

int main() {
  CHECK(cudaFree(nullptr));
  moved();
  copied();
  std::puts("ok");
}
