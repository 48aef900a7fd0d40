// A driver's results for conditional nodes of graphs: handles, nodes, and
// operations in bodies.
// nvcc: -lcuda
#include "conditional_graph.hpp"

#include <cstdio>

namespace {

CUcontext current() {
  CUcontext x{};
  CHECK(cuCtxGetCurrent(&x));
  return x;
}

CUgraphNodeParams params(handle h, CUgraphConditionalNodeType type,
                         unsigned bodies) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  p.conditional.handle = h;
  p.conditional.type = type;
  p.conditional.size = bodies;
  p.conditional.ctx = current();
  return p;
}

CUresult add_conditional(CUgraph in, CUgraphNodeParams p,
                         CUgraph* body = nullptr, CUgraphNode* out = nullptr) {
  CUgraphNode node{};
  auto code = cuGraphAddNode(&node, in, nullptr, nullptr, 0, &p);
  if (body != nullptr)
    *body = p.conditional.phGraph_out[0];
  if (out != nullptr)
    *out = node;
  return code;
}

void codes_of_handles() {
  auto ctx = current();
  graph g;
  CUgraphConditionalHandle h{};
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGraphConditionalHandleCreate(nullptr, g.it, ctx, 0, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGraphConditionalHandleCreate(&h, nullptr, ctx, 0, 0));
  ANSWER(CUDA_ERROR_INVALID_CONTEXT,
         cuGraphConditionalHandleCreate(&h, g.it, nullptr, 0, 0));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         cuGraphConditionalHandleCreate(&h, g.it, ctx, 0, 2));
  ANSWER(CUDA_SUCCESS, cuGraphConditionalHandleCreate(&h, g.it, ctx, 7, 0));
  CUgraphExec e{};
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&e, g.it, 0));
  CUDA_GRAPH_INSTANTIATE_PARAMS p{};
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&e, g.it, &p));
  EXPECT(p.result_out == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
}

void codes_of_nodes() {
  graph g, other;
  constexpr auto once = CU_GRAPH_COND_TYPE_IF;
  constexpr auto loop = CU_GRAPH_COND_TYPE_WHILE;
  constexpr auto ways = CU_GRAPH_COND_TYPE_SWITCH;
  auto foreign = other.condition();
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, params(0, once, 1)));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         add_conditional(g.it, params(0x1234, once, 1)));
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         add_conditional(g.it, params(foreign, once, 1)));
  auto h = g.condition();
  auto unknown = static_cast<CUgraphConditionalNodeType>(7);
  ANSWER(CUDA_ERROR_INVALID_VALUE,
         add_conditional(g.it, params(h, unknown, 1)));
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, params(h, once, 0)));
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, params(h, once, 3)));
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, params(h, loop, 0)));
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, params(h, loop, 2)));
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, params(h, ways, 0)));
  auto nowhere = params(h, once, 1);
  nowhere.conditional.ctx = nullptr;
  ANSWER(CUDA_ERROR_INVALID_CONTEXT, add_conditional(g.it, nowhere));
  auto reserved = params(h, once, 1);
  reserved.reserved0[0] = 1;
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, reserved));
  CUgraph body{};
  CUgraphNode node{};
  ANSWER(CUDA_SUCCESS, add_conditional(g.it, params(h, once, 1), &body, &node));
  ANSWER(CUDA_ERROR_INVALID_VALUE, add_conditional(g.it, params(h, once, 1)));
  ANSWER(CUDA_SUCCESS, add_conditional(body, params(g.condition(), loop, 1)));
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(body));
  CUgraph copy{};
  CUgraphNode child{};
  CUgraphExec e{};
  ANSWER(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, body));
  ANSWER(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, g.it));
  ANSWER(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiate(&e, body, 0));
  ANSWER(CUDA_ERROR_NOT_SUPPORTED,
         cuGraphAddChildGraphNode(&child, other.it, nullptr, 0, body));
  ANSWER(CUDA_ERROR_NOT_SUPPORTED,
         cuGraphAddChildGraphNode(&child, other.it, nullptr, 0, g.it));
  auto again = params(h, once, 1);
  ANSWER(CUDA_ERROR_NOT_SUPPORTED, cuGraphNodeSetParams(node, &again));
  ANSWER(CUDA_SUCCESS, cuGraphInstantiate(&e, g.it, 0));
  CUgraphExec second{};
  ANSWER(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiate(&second, g.it, 0));
  ANSWER(CUDA_SUCCESS, cuGraphExecDestroy(e));
  ANSWER(CUDA_SUCCESS, cuGraphInstantiate(&e, g.it, 0));
  ANSWER(CUDA_SUCCESS, cuGraphExecDestroy(e));
  CUgraphNodeType type{};
  ANSWER(CUDA_SUCCESS, cuGraphNodeGetType(node, &type));
  EXPECT(type == CU_GRAPH_NODE_TYPE_CONDITIONAL);
  ANSWER(CUDA_SUCCESS, cuGraphDestroyNode(node));
  std::size_t count = 0;
  ANSWER(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(body, nullptr, &count));
}

/// Checks bodies with forbidden operations, which fail when the graph is
/// instantiated.
void codes_of_bodies() {
  CUdeviceptr at = 0;
  CHECK(cuMemAlloc(&at, 16));
  auto with = [&](CUresult expected, const char* what, auto add_to) {
    graph g;
    CUgraph body{};
    CUgraphNode node{};
    CHECK(add_conditional(
        g.it, params(g.condition(1, 1), CU_GRAPH_COND_TYPE_IF, 1), &body));
    CHECK(add_to(&node, body));
    CUgraphExec e{};
    std::printf("  a body with %s\n", what);
    ANSWER(expected, cuGraphInstantiate(&e, g.it, 0));
    if (e != nullptr)
      CHECK(cuGraphExecDestroy(e));
  };
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = [](void*) {};
  with(CUDA_ERROR_INVALID_VALUE, "a host function", [&](auto* n, auto b) {
    return cuGraphAddHostNode(n, b, nullptr, 0, &host);
  });
  CUevent event{};
  CHECK(cuEventCreate(&event, 0));
  with(CUDA_ERROR_INVALID_VALUE, "a record", [&](auto* n, auto b) {
    return cuGraphAddEventRecordNode(n, b, nullptr, 0, event);
  });
  with(CUDA_ERROR_INVALID_VALUE, "a wait", [&](auto* n, auto b) {
    return cuGraphAddEventWaitNode(n, b, nullptr, 0, event);
  });
  CHECK(cuEventDestroy(event));
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = at;
  fill.elementSize = 4;
  fill.width = fill.height = 1;
  with(CUDA_SUCCESS, "a memset", [&](auto* n, auto b) {
    return cuGraphAddMemsetNode(n, b, nullptr, 0, &fill, current());
  });
  unsigned on_stack = 0;
  void* pinned{};
  CHECK(cuMemAllocHost(&pinned, 64));
  for (auto* from : {(void*)&on_stack, pinned}) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = from;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = at;
    copy.WidthInBytes = 4;
    copy.Height = copy.Depth = 1;
    with(from == pinned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
         from == pinned ? "a copy from pinned memory" : "a copy from any other",
         [&](auto* n, auto b) {
           return cuGraphAddMemcpyNode(n, b, nullptr, 0, &copy, current());
         });
  }
  CHECK(cuMemFreeHost(pinned));
  CHECK(cuMemFree(at));
}

} // namespace

int main() {
  CHECK(cudaFree(nullptr));
  codes_of_handles();
  codes_of_nodes();
  codes_of_bodies();
  std::printf("ok\n");
}
