// Graphs with conditional nodes.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;

namespace {

/// Kernels are recognised by the widths of their grids.
struct condition_fixture : driver_fixture {
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  std::size_t before = 0;

  condition_fixture() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
    REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE_OK(cuGraphCreate(&graph, 0));
    before = fake().launches().size();
  }
  ~condition_fixture() {
    fake().when_launched(nullptr);
    cuGraphDestroy(graph);
    cuStreamDestroy(stream);
    cuModuleUnload(module);
  }

  CUgraphConditionalHandle condition(unsigned value, unsigned flags = 1) {
    CUgraphConditionalHandle out = 0;
    REQUIRE_OK(
        cuGraphConditionalHandleCreate(&out, graph, primary, value, flags));
    return out;
  }
  CUgraphNode kernel(CUgraph in, unsigned width,
                     std::vector<CUgraphNode> after = {}) {
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = none;
    p.gridDimX = width;
    p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    CUgraphNode out = nullptr;
    REQUIRE_OK(cuGraphAddKernelNode(&out, in, after.data(), after.size(), &p));
    return out;
  }
  std::vector<CUgraph> choose(CUgraph in, CUgraphConditionalHandle by,
                              CUgraphConditionalNodeType type, unsigned size,
                              std::vector<CUgraphNode> after = {},
                              CUgraphNode* made = nullptr) {
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = by;
    p.conditional.type = type;
    p.conditional.size = size;
    p.conditional.ctx = primary;
    CUgraphNode node = nullptr;
    REQUIRE_OK(
        cuGraphAddNode(&node, in, after.data(), nullptr, after.size(), &p));
    if (made != nullptr)
      *made = node;
    return {p.conditional.phGraph_out, p.conditional.phGraph_out + size};
  }
  CUgraphExec instantiated() {
    CUgraphExec out = nullptr;
    REQUIRE_OK(cuGraphInstantiate(&out, graph, 0));
    return out;
  }
  /// Waits until launches have appended all their calls, as freeing memory
  /// does.
  void wait_for_launches() {
    CUdeviceptr any = 0;
    REQUIRE_OK(cuMemAlloc(&any, 16));
    REQUIRE_OK(cuMemFree(any));
    REQUIRE_OK(cuCtxSynchronize());
  }
  /// Returns the widths of the launches since the last call.
  std::vector<unsigned> arrived() {
    wait_for_launches();
    std::vector<unsigned> out;
    auto all = fake().launches();
    for (auto i = before; i < all.size(); ++i)
      out.push_back(all[i].call.grid.x);
    before = all.size();
    return out;
  }
  std::vector<unsigned> launch_once() {
    auto exec = instantiated();
    REQUIRE_OK(cuGraphLaunch(exec, stream));
    auto out = arrived();
    REQUIRE_OK(cuGraphExecDestroy(exec));
    return out;
  }
};

using widths = std::vector<unsigned>;

} // namespace

BOOST_FIXTURE_TEST_SUITE(graph_conditions, condition_fixture)

/// This runs first, because the library asks a device for conditions once.
BOOST_AUTO_TEST_CASE(a_device_may_have_no_conditions) {
  fake().take_conditions(false);
  std::size_t room = 0, left = 0, all = 0;
  REQUIRE_OK(cuMemGetInfo(&room, &all));
  CUgraphConditionalHandle h = 0;
  CHECK_CODE(cuGraphConditionalHandleCreate(&h, graph, primary, 0, 0),
             CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE_OK(cuMemGetInfo(&left, &all));
  BOOST_TEST(left == room);
  fake().take_conditions(true);
}

BOOST_AUTO_TEST_CASE(one_of_two_bodies_runs) {
  auto yes = choose(graph, condition(5), CU_GRAPH_COND_TYPE_IF, 2);
  auto no = choose(graph, condition(0), CU_GRAPH_COND_TYPE_IF, 2);
  auto alone = choose(graph, condition(0), CU_GRAPH_COND_TYPE_IF, 1);
  kernel(yes[0], 1);
  kernel(yes[1], 2);
  kernel(no[0], 3);
  kernel(no[1], 4);
  kernel(alone[0], 5);
  BOOST_TEST(launch_once() == (widths{1, 4}));
}

BOOST_AUTO_TEST_CASE(one_of_many_bodies_or_none_runs) {
  for (unsigned value : {0U, 2U, 3U, 1000U}) {
    auto ways = choose(graph, condition(value), CU_GRAPH_COND_TYPE_SWITCH, 3);
    for (unsigned i = 0; i < 3; ++i)
      kernel(ways[i], 10 * (i + 1));
  }
  BOOST_TEST(launch_once() == (widths{10, 30}));
}

BOOST_AUTO_TEST_CASE(a_loop_ends_when_its_condition_is_zero) {
  auto h = condition(1);
  CUgraphNode loop = nullptr;
  auto body =
      choose(graph, h, CU_GRAPH_COND_TYPE_WHILE, 1, {kernel(graph, 1)}, &loop);
  kernel(body[0], 7);
  kernel(graph, 2, {loop});
  int left = 3;
  fake().when_launched([&](const call::launch& x) {
    if (x.grid.x == 7 && --left == 0)
      fake().set_condition(h, 0);
  });
  BOOST_TEST(launch_once() == (widths{1, 7, 7, 7, 2}));
}

BOOST_AUTO_TEST_CASE(a_body_may_hold_conditional_nodes) {
  auto outer = condition(1), inner = condition(0);
  auto loop = choose(graph, outer, CU_GRAPH_COND_TYPE_WHILE, 1);
  CUgraphNode chosen = nullptr;
  auto ways = choose(loop[0], inner, CU_GRAPH_COND_TYPE_SWITCH, 2, {}, &chosen);
  kernel(ways[0], 10);
  kernel(ways[1], 20);
  kernel(loop[0], 30, {chosen});
  fake().when_launched([&](const call::launch& x) {
    if (x.grid.x == 10)
      fake().set_condition(inner, 1);
    if (x.grid.x == 20)
      fake().set_condition(outer, 0);
  });
  BOOST_TEST(launch_once() == (widths{10, 30, 20, 30}));
}

BOOST_AUTO_TEST_CASE(without_the_flag_a_condition_keeps_its_value) {
  auto h = condition(1, 0);
  CUgraphNode node = nullptr;
  auto ways = choose(graph, h, CU_GRAPH_COND_TYPE_IF, 2, {}, &node);
  kernel(ways[0], 1);
  kernel(ways[1], 2);
  kernel(graph, 3, {node});
  fake().when_launched([&](const call::launch& x) {
    if (x.grid.x == 3)
      fake().set_condition(h, 9);
  });
  auto exec = instantiated();
  for (int i = 0; i < 3; ++i) {
    REQUIRE_OK(cuGraphLaunch(exec, stream));
    wait_for_launches();
  }
  BOOST_TEST(arrived() == (widths{2, 3, 1, 3, 1, 3}));
  REQUIRE_OK(cuGraphExecDestroy(exec));
}

BOOST_AUTO_TEST_CASE(a_launch_does_not_wait_and_keeps_its_parameters) {
  auto body = choose(graph, condition(1), CU_GRAPH_COND_TYPE_IF, 1);
  auto node = kernel(body[0], 1);
  auto exec = instantiated();
  fake().pause();
  REQUIRE_OK(cuGraphLaunch(exec, nullptr));
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = none;
  p.gridDimX = 2;
  p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  REQUIRE_OK(cuGraphExecKernelNodeSetParams(exec, node, &p));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuGraphExecDestroy(exec));
  fake().resume();
  auto all = arrived();
  std::sort(all.begin(), all.end());
  BOOST_TEST(all == (widths{1, 2}));
}

BOOST_AUTO_TEST_CASE(events_are_recorded_when_a_launch_returns) {
  CUevent before_all = nullptr, behind_all = nullptr;
  REQUIRE_OK(cuEventCreate(&before_all, 0));
  REQUIRE_OK(cuEventCreate(&behind_all, 0));
  CUgraphNode node = nullptr, made = nullptr;
  auto body = choose(graph, condition(1), CU_GRAPH_COND_TYPE_IF, 1, {}, &node);
  kernel(body[0], 1);
  REQUIRE_OK(cuGraphAddEventWaitNode(&made, graph, &node, 1, before_all));
  REQUIRE_OK(cuGraphAddEventRecordNode(&made, graph, &made, 1, behind_all));
  auto exec = instantiated();
  auto records = [] {
    return fake()
        .counts()[static_cast<std::uint16_t>(call::number::event_record)];
  };
  REQUIRE_OK(cuCtxSynchronize());
  auto recorded = records();
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuEventSynchronize(behind_all));
  // The graph's event, and those of the launch's beginning and end.
  BOOST_TEST(arrived() == (widths{1}));
  BOOST_TEST(records() == recorded + 3);
  REQUIRE_OK(cuGraphExecDestroy(exec));
  REQUIRE_OK(cuEventDestroy(before_all));
  REQUIRE_OK(cuEventDestroy(behind_all));
}

BOOST_AUTO_TEST_CASE(a_context_may_end_during_a_launch) {
  auto body = choose(graph, condition(1), CU_GRAPH_COND_TYPE_IF, 1);
  kernel(body[0], 1);
  auto exec = instantiated();
  auto count = fake().launches().size();
  fake().pause();
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  fake().resume();
  // The bodies that the launch runs come before the end of the context's
  // objects.
  REQUIRE_OK(cuDevicePrimaryCtxReset(0));
  CUcontext again = nullptr;
  REQUIRE_OK(cuDevicePrimaryCtxRetain(&again, 0));
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(fake().launches().size() == count + 1);
  REQUIRE_OK(cuDevicePrimaryCtxRelease(0));
  REQUIRE_OK(cuGraphExecDestroy(exec));
}

BOOST_AUTO_TEST_CASE(many_launches_may_be_pending) {
  auto body = choose(graph, condition(1), CU_GRAPH_COND_TYPE_IF, 1);
  kernel(body[0], 1);
  auto exec = instantiated();
  for (int i = 0; i < 500; ++i)
    REQUIRE_OK(cuGraphLaunch(exec, i % 2 == 0 ? stream : nullptr));
  BOOST_TEST(arrived().size() == 500U);
  REQUIRE_OK(cuGraphExecDestroy(exec));
}

BOOST_AUTO_TEST_CASE(words_of_conditions_are_reused) {
  std::set<CUgraphConditionalHandle> seen;
  for (int round = 0; round < 100; ++round) {
    CUgraph own = nullptr;
    REQUIRE_OK(cuGraphCreate(&own, 0));
    CUgraphConditionalHandle h = 0;
    REQUIRE_OK(cuGraphConditionalHandleCreate(&h, own, primary, 0, 0));
    seen.insert(h);
    REQUIRE_OK(cuGraphDestroy(own));
    wait_for_launches();
    // The handle no longer names anything.
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = h;
    p.conditional.size = 1;
    p.conditional.ctx = primary;
    CUgraphNode node = nullptr;
    CHECK_CODE(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &p),
               CUDA_ERROR_INVALID_VALUE);
  }
  BOOST_TEST(seen.size() < 50U);
}

BOOST_AUTO_TEST_CASE(a_drawing_shows_conditional_nodes) {
  choose(graph, condition(1), CU_GRAPH_COND_TYPE_SWITCH, 2);
  auto path = "/tmp/conditions-" + std::to_string(::getpid()) + ".dot";
  REQUIRE_OK(cuGraphDebugDotPrint(graph, path.c_str(), 0));
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  std::filesystem::remove(path);
  BOOST_TEST(text.str() ==
             "digraph dot {\nsubgraph cluster_1 {\n"
             "label=\"graph_1\" graph[style=\"dashed\"];\n"
             "\"graph_1_node_0\"[style=\"bold\" shape=\"record\" label=\"{\n"
             "CONDITIONAL\n| {ID | 0}\n| {Conditional Type| SWITCH}\n"
             "| {0|  graph_2}\n| {1|  graph_3}\n}\n\"];\n\n}\n"
             "subgraph cluster_2 {\n"
             "label=\"graph_2\" graph[style=\"dashed\"];\n}\n"
             "subgraph cluster_3 {\n"
             "label=\"graph_3\" graph[style=\"dashed\"];\n}\n}\n");
}

BOOST_AUTO_TEST_SUITE_END()
