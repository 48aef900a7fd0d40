// Updates of executable graphs: which nodes are paired, and what may differ.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct update_fixture : driver_fixture {
  CUmodule module = nullptr;
  CUfunction none = nullptr;

  update_fixture() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
  }
  ~update_fixture() { cuModuleUnload(module); }

  CUgraph make() {
    CUgraph out = nullptr;
    REQUIRE_OK(cuGraphCreate(&out, 0));
    return out;
  }
  CUgraphNode kernel(CUgraph to, unsigned blocks,
                     std::vector<CUgraphNode> after = {}) {
    CUDA_KERNEL_NODE_PARAMS what{};
    what.func = none;
    what.gridDimX = blocks;
    what.gridDimY = what.gridDimZ = 1;
    what.blockDimX = what.blockDimY = what.blockDimZ = 1;
    CUgraphNode out = nullptr;
    REQUIRE_OK(
        cuGraphAddKernelNode(&out, to, after.data(), after.size(), &what));
    return out;
  }
  CUgraphNode empty(CUgraph to, std::vector<CUgraphNode> after = {}) {
    CUgraphNode out = nullptr;
    REQUIRE_OK(cuGraphAddEmptyNode(&out, to, after.data(), after.size()));
    return out;
  }
  CUgraphExec ready(CUgraph from, unsigned long long flags = 0) {
    CUgraphExec out = nullptr;
    REQUIRE_OK(cuGraphInstantiate(&out, from, flags));
    return out;
  }
  /// Updates, destroys both, and returns what the update said.
  CUgraphExecUpdateResultInfo update(CUgraphExec exec, CUgraph from) {
    CUgraphExecUpdateResultInfo info{};
    auto code = cuGraphExecUpdate(exec, from, &info);
    BOOST_TEST((code == CUDA_SUCCESS) ==
               (info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS));
    return info;
  }
  std::vector<unsigned> blocks_of_a_launch(CUgraphExec exec) {
    auto before = fake().launches().size();
    REQUIRE_OK(cuGraphLaunch(exec, nullptr));
    REQUIRE_OK(cuCtxSynchronize());
    std::vector<unsigned> out;
    auto all = fake().launches();
    for (auto i = before; i < all.size(); ++i)
      out.push_back(all[i].call.grid.x);
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(graph_updates, update_fixture)

BOOST_AUTO_TEST_CASE(nodes_are_paired_by_their_edges) {
  // Both graphs are a chain. The second one's nodes were made in the other
  // order.
  auto first = make();
  auto a = kernel(first, 1);
  kernel(first, 2, {a});
  auto second = make();
  auto late = kernel(second, 20);
  auto early = kernel(second, 10);
  REQUIRE_OK(cuGraphAddDependencies(second, &early, &late, nullptr, 1));
  auto exec = ready(first);
  auto info = update(exec, second);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  auto seen = blocks_of_a_launch(exec);
  BOOST_REQUIRE(seen.size() == 2U);
  BOOST_TEST(seen[0] == 10U);
  BOOST_TEST(seen[1] == 20U);
  REQUIRE_OK(cuGraphExecDestroy(exec));
  REQUIRE_OK(cuGraphDestroy(first));
  REQUIRE_OK(cuGraphDestroy(second));
}

BOOST_AUTO_TEST_CASE(the_first_difference_is_named) {
  auto first = make();
  auto a = kernel(first, 1), b = kernel(first, 2);
  kernel(first, 3, {a, b});
  auto exec = ready(first);

  auto longer = make();
  kernel(longer, 1);
  auto info = update(exec, longer);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  BOOST_TEST(info.errorNode == nullptr);

  auto loose = make(); // two last nodes
  auto x = kernel(loose, 1);
  kernel(loose, 2, {x});
  auto last = kernel(loose, 3, {x});
  info = update(exec, loose);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  BOOST_TEST(info.errorNode == last);

  auto chain = make();
  auto one = kernel(chain, 1);
  auto two = kernel(chain, 2, {one});
  auto three = kernel(chain, 3, {two});
  info = update(exec, chain);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  BOOST_TEST(info.errorNode == three);

  auto other = make();
  auto p = kernel(other, 1), q = empty(other);
  kernel(other, 3, {p, q});
  info = update(exec, other);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  BOOST_TEST(info.errorNode == q);

  REQUIRE_OK(cuGraphExecDestroy(exec));
  for (auto* graph : {first, longer, loose, chain, other})
    REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(a_dependency_that_is_paired_already_is_named) {
  // A diamond whose branches both depend on the same node, against one whose
  // branches depend on two.
  auto first = make();
  auto a = kernel(first, 1), b = kernel(first, 2);
  auto c = kernel(first, 3, {a}), d = kernel(first, 4, {b});
  kernel(first, 5, {c, d});
  auto second = make();
  auto p = kernel(second, 1);
  kernel(second, 2);
  auto r = kernel(second, 3, {p}), s = kernel(second, 4, {p});
  kernel(second, 5, {r, s});
  auto exec = ready(first);
  auto info = update(exec, second);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  BOOST_TEST((info.errorNode != nullptr));
  REQUIRE_OK(cuGraphExecDestroy(exec));
  REQUIRE_OK(cuGraphDestroy(first));
  REQUIRE_OK(cuGraphDestroy(second));
}

BOOST_AUTO_TEST_CASE(attributes_that_cannot_change_are_named) {
  auto node_with = [&](CUgraph in, int cooperative, int priority) {
    auto node = kernel(in, 1);
    CUkernelNodeAttrValue value{};
    value.cooperative = cooperative;
    REQUIRE_OK(cuGraphKernelNodeSetAttribute(
        node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    value = {};
    value.priority = priority;
    REQUIRE_OK(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                             &value));
    return node;
  };
  auto first = make(), second = make(), third = make();
  node_with(first, 0, -1);
  auto cooperative = node_with(second, 1, -1);
  auto urgent = node_with(third, 0, -2);
  auto plain = ready(first);
  auto by_node = ready(first, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  auto info = update(plain, second);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
  BOOST_TEST(info.errorNode == cooperative);
  info = update(by_node, third);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
  BOOST_TEST(info.errorNode == urgent);
  info = update(plain, third);
  BOOST_TEST(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  for (auto* exec : {plain, by_node})
    REQUIRE_OK(cuGraphExecDestroy(exec));
  for (auto* graph : {first, second, third})
    REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(a_cycle_is_named_by_the_call_that_cannot_instantiate_it) {
  auto graph = make();
  kernel(graph, 1);
  auto a = kernel(graph, 2), b = kernel(graph, 3, {a});
  REQUIRE_OK(cuGraphAddDependencies(graph, &b, &a, nullptr, 1));
  CUDA_GRAPH_INSTANTIATE_PARAMS how{};
  CUgraphExec exec = nullptr;
  CHECK_CODE(cuGraphInstantiateWithParams(&exec, graph, &how),
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(how.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  BOOST_TEST((how.hErrNode_out == a || how.hErrNode_out == b));
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_SUITE_END()
