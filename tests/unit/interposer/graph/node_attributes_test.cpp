// Attributes of kernel nodes, captured launches with attributes, and the edges
// that they make.
#include "tests/unit/interposer/driver_fixture.hpp"

#include "schema/base/launch_hint.hpp"

#include <cstring>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct node_fixture : driver_fixture {
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  CUstream stream = nullptr, other = nullptr;
  CUevent event = nullptr;

  node_fixture() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
    REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    REQUIRE_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  }
  ~node_fixture() {
    cuEventDestroy(event);
    cuStreamDestroy(other);
    cuStreamDestroy(stream);
    cuModuleUnload(module);
  }

  CUresult launch(CUstream in, std::vector<CUlaunchAttribute> attributes = {}) {
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = in;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    return cuLaunchKernelEx(&config, none, nullptr, nullptr);
  }
  static CUlaunchAttribute priority(int value) {
    CUlaunchAttribute x{};
    x.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    x.value.priority = value;
    return x;
  }
  static CUlaunchAttribute overlap() {
    CUlaunchAttribute x{};
    x.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    x.value.programmaticStreamSerializationAllowed = 1;
    return x;
  }
  void begin() {
    REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  }
  CUgraph end() {
    CUgraph out = nullptr;
    REQUIRE_OK(cuStreamEndCapture(stream, &out));
    return out;
  }
  std::vector<CUgraphNode> nodes(CUgraph of) {
    std::size_t count = 0;
    REQUIRE_OK(cuGraphGetNodes(of, nullptr, &count));
    std::vector<CUgraphNode> out(count);
    REQUIRE_OK(cuGraphGetNodes(of, out.data(), &count));
    return out;
  }
  /// Returns the data of a graph's only edge.
  CUgraphEdgeData edge(CUgraph of) {
    std::size_t count = 1;
    CUgraphNode from = nullptr, to = nullptr;
    CUgraphEdgeData out{};
    REQUIRE_OK(cuGraphGetEdges(of, &from, &to, &out, &count));
    BOOST_TEST(count == 1U);
    return out;
  }
  int priority_of(CUgraphNode node) {
    CUkernelNodeAttrValue value{};
    REQUIRE_OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                             &value));
    return value.priority;
  }
  /// Returns the number of hints of the newest launch.
  std::size_t hints(CUgraphExec exec) {
    REQUIRE_OK(cuGraphLaunch(exec, stream));
    REQUIRE_OK(cuCtxSynchronize());
    auto seen = fake().launches().back();
    std::span<const std::byte> parameters;
    std::vector<launch_hint> out;
    if ((seen.call.flags & call::launch::hinted) != 0)
      BOOST_TEST(take_hints(seen.parameters, parameters, out));
    return out.size();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(node_attributes, node_fixture)

BOOST_AUTO_TEST_CASE(a_captured_launch_keeps_its_attributes) {
  begin();
  REQUIRE_OK(launch(stream, {priority(-2)}));
  auto graph = end();
  auto node = nodes(graph).at(0);
  BOOST_TEST(priority_of(node) == -2);
  // The priority counts only where the graph asks for it.
  CUgraphExec plain = nullptr, by_node = nullptr;
  REQUIRE_OK(cuGraphInstantiate(&plain, graph, 0));
  REQUIRE_OK(cuGraphInstantiate(&by_node, graph,
                                CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  BOOST_TEST(hints(plain) == 0U);
  BOOST_TEST(hints(by_node) == 1U);
  REQUIRE_OK(cuGraphExecDestroy(plain));
  REQUIRE_OK(cuGraphExecDestroy(by_node));
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(a_captured_launch_has_its_streams_priority) {
  CUstream urgent = nullptr;
  REQUIRE_OK(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -3));
  REQUIRE_OK(cuStreamBeginCapture(urgent, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(launch(urgent));
  CUgraph graph = nullptr;
  REQUIRE_OK(cuStreamEndCapture(urgent, &graph));
  BOOST_TEST(priority_of(nodes(graph).at(0)) == -3);
  REQUIRE_OK(cuGraphDestroy(graph));
  REQUIRE_OK(cuStreamDestroy(urgent));
}

BOOST_AUTO_TEST_CASE(attributes_outlive_new_parameters_and_are_copied) {
  begin();
  REQUIRE_OK(launch(stream, {priority(-1)}));
  REQUIRE_OK(launch(stream));
  auto graph = end();
  auto all = nodes(graph);
  CUDA_KERNEL_NODE_PARAMS params{};
  REQUIRE_OK(cuGraphKernelNodeGetParams(all[0], &params));
  params.gridDimX = 7;
  REQUIRE_OK(cuGraphKernelNodeSetParams(all[0], &params));
  BOOST_TEST(priority_of(all[0]) == -1);
  REQUIRE_OK(cuGraphKernelNodeCopyAttributes(all[1], all[0]));
  BOOST_TEST(priority_of(all[1]) == -1);
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(nodes_have_the_attributes_that_cuda_lists) {
  begin();
  REQUIRE_OK(launch(stream));
  auto graph = end();
  auto node = nodes(graph).at(0);
  CUkernelNodeAttrValue value{};
  for (auto id : {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
                  CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT}) {
    BOOST_TEST(cuGraphKernelNodeGetAttribute(node, id, &value) ==
               CUDA_ERROR_INVALID_VALUE);
    BOOST_TEST(cuGraphKernelNodeSetAttribute(node, id, &value) ==
               CUDA_ERROR_INVALID_VALUE);
  }
  REQUIRE_OK(cuGraphKernelNodeGetAttribute(
      node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value));
  BOOST_TEST(value.memSyncDomainMap.remote == 1);
  value = {};
  value.memSyncDomain = unknown_value<CUlaunchMemSyncDomain>(1);
  REQUIRE_OK(cuGraphKernelNodeSetAttribute(
      node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
  value = {};
  REQUIRE_OK(cuGraphKernelNodeGetAttribute(
      node, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
  BOOST_TEST(int{value.memSyncDomain} == 1);
  // A node on the device cannot be had.
  value.deviceUpdatableKernelNode = {1, nullptr};
  CHECK_CODE(
      cuGraphKernelNodeSetAttribute(
          node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value),
      CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(a_kernel_that_may_overlap_has_a_programmatic_edge) {
  begin();
  REQUIRE_OK(launch(stream));
  REQUIRE_OK(launch(stream, {overlap()}));
  auto graph = end();
  auto data = edge(graph);
  BOOST_TEST(data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  BOOST_TEST(data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(events_of_captured_launches_are_edges) {
  begin();
  CUlaunchAttribute completed{};
  completed.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  completed.value.launchCompletionEvent = {event, 0};
  REQUIRE_OK(launch(stream, {completed}));
  REQUIRE_OK(cuStreamWaitEvent(other, event, 0));
  // The next node's edge has data, which older calls cannot tell.
  CUstreamCaptureStatus status{};
  const CUgraphNode* after = nullptr;
  const CUgraphEdgeData* data = nullptr;
  std::size_t count = 0;
  CHECK_CODE(cuStreamGetCaptureInfo(other, &status, nullptr, nullptr, &after,
                                    nullptr, &count),
             CUDA_ERROR_LOSSY_QUERY);
  REQUIRE_OK(cuStreamGetCaptureInfo(other, &status, nullptr, nullptr, &after,
                                    &data, &count));
  BOOST_REQUIRE(count == 1U);
  BOOST_TEST(data[0].from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
  REQUIRE_OK(launch(other));
  CUevent joined = nullptr;
  REQUIRE_OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
  REQUIRE_OK(cuEventRecord(joined, other));
  REQUIRE_OK(cuStreamWaitEvent(stream, joined, 0));
  auto graph = end();
  BOOST_TEST(edge(graph).from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
  REQUIRE_OK(cuEventDestroy(joined));
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(a_capture_takes_edges_with_data) {
  CUgraph graph = nullptr;
  REQUIRE_OK(cuGraphCreate(&graph, 0));
  CUDA_KERNEL_NODE_PARAMS what{};
  what.func = none;
  what.gridDimX = what.gridDimY = what.gridDimZ = 1;
  what.blockDimX = what.blockDimY = what.blockDimZ = 1;
  CUgraphNode first = nullptr;
  REQUIRE_OK(cuGraphAddKernelNode(&first, graph, nullptr, 0, &what));
  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  REQUIRE_OK(cuStreamBeginCaptureToGraph(stream, graph, &first, &data, 1,
                                         CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(launch(stream));
  // The program has the graph already.
  REQUIRE_OK(cuStreamEndCapture(stream, nullptr));
  auto got = edge(graph);
  BOOST_TEST(std::memcmp(&got, &data, sizeof(data)) == 0);
  BOOST_TEST(nodes(graph).size() == 2U);
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_SUITE_END()
