#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

std::atomic<int> destroyed{0};

struct graph_fixture : driver_fixture {
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  CUstream stream = nullptr;
  std::size_t before = 0;

  graph_fixture() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
    REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    before = fake().launches().size();
  }
  ~graph_fixture() {
    cuStreamDestroy(stream);
    cuModuleUnload(module);
  }

  CUresult launch(CUstream in, unsigned blocks) {
    return cuLaunchKernel(none, blocks, 1, 1, 1, 1, 1, 0, in, nullptr, nullptr);
  }
  /// Returns how many launches arrived since the beginning of the test.
  std::size_t arrived() {
    BOOST_TEST(cuCtxSynchronize() == CUDA_SUCCESS);
    return fake().launches().size() - before;
  }
  CUgraph capture(unsigned launches) {
    CUgraph made = nullptr;
    REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 1; i <= launches; ++i)
      REQUIRE_OK(launch(stream, i));
    REQUIRE_OK(cuStreamEndCapture(stream, &made));
    return made;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(graphs, graph_fixture)

BOOST_AUTO_TEST_CASE(captured_launches_are_sent_with_each_graph_launch) {
  auto graph = capture(3);
  BOOST_TEST(arrived() == 0U);
  CUgraphExec exec = nullptr;
  REQUIRE_OK(cuGraphInstantiate(&exec, graph, 0));
  REQUIRE_OK(cuGraphDestroy(graph));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuGraphLaunch(exec, nullptr));
  BOOST_TEST(arrived() == 6U);
  auto all = fake().launches();
  for (std::size_t i = 0; i < 6; ++i)
    BOOST_TEST(all[before + i].call.grid.x == i % 3 + 1);
  BOOST_TEST(all[before].call.stream.id.value !=
             all[before + 3].call.stream.id.value);
  REQUIRE_OK(cuGraphExecDestroy(exec));
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_launch_of_an_unloaded_kernel_fails) {
  CUmodule other = nullptr;
  CUfunction f = nullptr;
  REQUIRE_OK(cuModuleLoadData(&other, ".version 8.0\n"));
  REQUIRE_OK(cuModuleGetFunction(&f, other, "none"));
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  CUgraph graph = nullptr;
  REQUIRE_OK(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec = nullptr;
  REQUIRE_OK(cuGraphInstantiate(&exec, graph, 0));
  REQUIRE_OK(cuModuleUnload(other));
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
  REQUIRE_OK(cuGraphExecDestroy(exec));
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(destroyed_handles_are_refused) {
  auto graph = capture(1);
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  REQUIRE_OK(cuGraphGetNodes(graph, &node, &count));
  BOOST_TEST(count == 1U);
  REQUIRE_OK(cuGraphDestroy(graph));
  CUgraphNodeType type{};
  CHECK_CODE(cuGraphNodeGetType(node, &type), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphDestroyNode(nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphGetNodes(graph, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  CHECK_CODE(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(an_upload_needs_the_call_with_a_stream) {
  auto graph = capture(1);
  CUgraphExec exec = nullptr;
  CHECK_CODE(
      cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
      CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(
      cuGraphInstantiate(&exec, graph,
                         CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                             CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
      CUDA_ERROR_INVALID_VALUE);
  CUDA_GRAPH_INSTANTIATE_PARAMS with{};
  with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  with.hUploadStream = CU_STREAM_PER_THREAD;
  REQUIRE_OK(cuGraphInstantiateWithParams(&exec, graph, &with));
  BOOST_TEST(with.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
  cuuint64_t flags = 0;
  REQUIRE_OK(cuGraphExecGetFlags(exec, &flags));
  BOOST_TEST(flags == 0U); // the flag is not kept
  REQUIRE_OK(cuGraphExecDestroy(exec));
  REQUIRE_OK(cuGraphDestroy(graph));
}

BOOST_AUTO_TEST_CASE(a_child_graph_belongs_to_its_node) {
  auto inner = capture(2);
  CUgraph outer = nullptr, child = nullptr;
  REQUIRE_OK(cuGraphCreate(&outer, 0));
  CUgraphNode node = nullptr;
  REQUIRE_OK(cuGraphAddChildGraphNode(&node, outer, nullptr, 0, inner));
  REQUIRE_OK(cuGraphChildGraphNodeGetGraph(node, &child));
  BOOST_TEST(child != inner);
  CHECK_CODE(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);
  std::size_t count = 0;
  REQUIRE_OK(cuGraphGetNodes(child, nullptr, &count));
  BOOST_TEST(count == 2U);
  REQUIRE_OK(cuGraphDestroy(outer));
  CHECK_CODE(cuGraphGetNodes(child, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphDestroy(inner));
}

BOOST_AUTO_TEST_CASE(nodes_of_another_graph_are_refused_as_dependencies) {
  auto a = capture(1), b = capture(1);
  CUgraphNode of_a = nullptr, made = nullptr;
  std::size_t one = 1;
  REQUIRE_OK(cuGraphGetNodes(a, &of_a, &one));
  CHECK_CODE(cuGraphAddEmptyNode(&made, b, &of_a, 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphAddEmptyNode(&made, b, nullptr, 1),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphDestroy(a));
  REQUIRE_OK(cuGraphDestroy(b));
}

BOOST_AUTO_TEST_CASE(a_user_object_is_destroyed_with_its_last_graph) {
  destroyed = 0;
  CUuserObject object = nullptr;
  REQUIRE_OK(cuUserObjectCreate(
      &object, &destroyed,
      [](void* x) { ++*static_cast<std::atomic<int>*>(x); }, 1,
      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  auto graph = capture(1);
  REQUIRE_OK(
      cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraphExec exec = nullptr;
  REQUIRE_OK(cuGraphInstantiate(&exec, graph, 0));
  REQUIRE_OK(cuGraphDestroy(graph));
  BOOST_TEST(destroyed.load() == 0);
  REQUIRE_OK(cuGraphExecDestroy(exec));
  BOOST_TEST(destroyed.load() == 1);
  CHECK_CODE(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_captures_events_and_streams_may_be_destroyed_early) {
  CUevent forked = nullptr, joined = nullptr;
  CUstream side = nullptr;
  CUgraph made = nullptr;
  REQUIRE_OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(cuEventCreate(&forked, 0));
  REQUIRE_OK(cuEventCreate(&joined, 0));
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(launch(stream, 1));
  REQUIRE_OK(cuEventRecord(forked, stream));
  REQUIRE_OK(cuStreamWaitEvent(side, forked, 0));
  REQUIRE_OK(cuEventDestroy(forked));
  REQUIRE_OK(launch(side, 2));
  REQUIRE_OK(cuEventRecord(joined, side));
  REQUIRE_OK(cuStreamWaitEvent(stream, joined, 0));
  REQUIRE_OK(cuEventDestroy(joined));
  REQUIRE_OK(cuStreamDestroy(side));
  REQUIRE_OK(cuStreamEndCapture(stream, &made));
  std::size_t count = 0;
  REQUIRE_OK(cuGraphGetNodes(made, nullptr, &count));
  BOOST_TEST(count == 2U);
  REQUIRE_OK(cuGraphDestroy(made));
}

BOOST_AUTO_TEST_CASE(destroying_a_stream_ends_its_capture) {
  CUstream gone = nullptr;
  REQUIRE_OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(cuStreamBeginCapture(gone, CU_STREAM_CAPTURE_MODE_GLOBAL));
  REQUIRE_OK(cuStreamDestroy(gone));
  CUdeviceptr p = 0; // no capture is left
  REQUIRE_OK(cuMemAlloc(&p, 16));
  REQUIRE_OK(cuMemFree(p));
}

BOOST_AUTO_TEST_CASE(a_capture_does_not_survive_work_of_its_whole_context) {
  CUevent event = nullptr;
  CUcontext context = nullptr;
  REQUIRE_OK(cuEventCreate(&event, 0));
  REQUIRE_OK(cuCtxGetCurrent(&context));
  std::vector<std::function<CUresult()>> calls{
      [] { return cuCtxSynchronize(); },
      [&] { return cuCtxRecordEvent(context, event); },
      [&] { return cuCtxWaitEvent(context, event); }};
  for (auto& call : calls) {
    CUgraph made = nullptr;
    REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_CODE(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_CODE(cuStreamEndCapture(stream, &made),
               CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    REQUIRE_OK(call());
  }
  REQUIRE_OK(cuEventDestroy(event));
}

BOOST_AUTO_TEST_CASE(a_module_is_not_unloaded_while_waits_are_forbidden) {
  CUmodule other = nullptr;
  CUgraph made = nullptr;
  REQUIRE_OK(cuModuleLoadData(&other, ".version 8.0\n"));
  for (auto mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    REQUIRE_OK(cuStreamBeginCapture(stream, mode));
    CHECK_CODE(cuModuleUnload(other), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_CODE(cuStreamEndCapture(stream, &made),
               CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(cuModuleUnload(other));
  REQUIRE_OK(cuStreamEndCapture(stream, &made));
  REQUIRE_OK(cuGraphDestroy(made));
}

BOOST_AUTO_TEST_CASE(captures_that_meet_are_invalidated) {
  CUstream other = nullptr;
  CUevent event = nullptr;
  CUgraph made = nullptr;
  REQUIRE_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(cuEventCreate(&event, 0));
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CODE(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED),
             CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE_OK(cuEventRecord(event, stream));
  CHECK_CODE(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
  CHECK_CODE(cuStreamEndCapture(stream, &made),
             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(cuEventRecord(event, stream));
  CHECK_CODE(cuStreamWaitEvent(other, event, 0),
             CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CHECK_CODE(cuStreamEndCapture(stream, &made),
             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK_CODE(cuStreamEndCapture(other, &made),
             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  BOOST_TEST(made == nullptr);
  // A record outside the capture is not part of it.
  REQUIRE_OK(cuEventRecord(event, other));
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CODE(cuStreamWaitEvent(stream, event, 0),
             CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK_CODE(cuStreamEndCapture(stream, &made),
             CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  REQUIRE_OK(cuEventDestroy(event));
  REQUIRE_OK(cuStreamDestroy(other));
}

BOOST_AUTO_TEST_SUITE_END()
