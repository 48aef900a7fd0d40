#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// Returns how many calls of a kind the log had.
int sent(call::number which) {
  BOOST_TEST(cuCtxSynchronize() == CUDA_SUCCESS);
  return fake().counts()[static_cast<std::uint16_t>(which)];
}

struct memory_graph_fixture : driver_fixture {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;

  memory_graph_fixture() {
    REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    REQUIRE_OK(cuGraphCreate(&graph, 0));
  }
  ~memory_graph_fixture() {
    if (exec != nullptr)
      cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuStreamDestroy(stream);
    cuDeviceGraphMemTrim(0);
    for (auto mark : {CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
                      CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH}) {
      cuuint64_t none = 0;
      cuDeviceSetGraphMemAttribute(0, mark, &none);
    }
  }

  static CUDA_MEM_ALLOC_NODE_PARAMS wanted(std::size_t bytes) {
    CUDA_MEM_ALLOC_NODE_PARAMS out{};
    out.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    out.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    out.bytesize = bytes;
    return out;
  }
  static CUdeviceptr add(CUgraph to, std::size_t bytes,
                         CUgraphNode* node = nullptr,
                         CUgraphNode after = nullptr) {
    auto params = wanted(bytes);
    CUgraphNode made = nullptr;
    REQUIRE_OK(cuGraphAddMemAllocNode(node != nullptr ? node : &made, to,
                                      &after, after != nullptr ? 1 : 0,
                                      &params));
    return params.dptr;
  }
  static CUgraphNode add_free(CUgraph to, CUdeviceptr what, CUgraphNode after) {
    CUgraphNode made = nullptr;
    REQUIRE_OK(cuGraphAddMemFreeNode(&made, to, &after,
                                     after != nullptr ? 1 : 0, what));
    return made;
  }
  CUgraphExec instantiate(CUgraph of, std::uint64_t flags = 0) {
    CUgraphExec made = nullptr;
    REQUIRE_OK(cuGraphInstantiateWithFlags(&made, of, flags));
    return made;
  }
  static cuuint64_t attribute(CUgraphMem_attribute which) {
    cuuint64_t out = 99;
    REQUIRE_OK(cuDeviceGetGraphMemAttribute(0, which, &out));
    return out;
  }
  static std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    REQUIRE_OK(cuMemGetInfo(&free, &total));
    return free;
  }
  static std::size_t total_bytes() {
    std::size_t free = 0, total = 0;
    REQUIRE_OK(cuMemGetInfo(&free, &total));
    return total;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(graph_memories, memory_graph_fixture)

BOOST_AUTO_TEST_CASE(memory_is_allocated_at_the_first_launch_and_kept) {
  auto before = free_bytes();
  auto made = sent(call::number::mem_alloc);
  CUgraphNode node = nullptr;
  auto p = add(graph, 3 * mib, &node);
  add_free(graph, p, node);
  exec = instantiate(graph);
  BOOST_TEST(sent(call::number::mem_alloc) == made);
  BOOST_TEST(free_bytes() == before);
  for (int i = 0; i < 3; ++i)
    REQUIRE_OK(cuGraphLaunch(exec, stream));
  BOOST_TEST(sent(call::number::mem_alloc) == made + 1);
  BOOST_TEST(free_bytes() == before - 4 * mib); // two granules
  auto gone = sent(call::number::mem_free);
  REQUIRE_OK(cuDeviceGraphMemTrim(0));
  BOOST_TEST(sent(call::number::mem_free) == gone + 1);
  BOOST_TEST(free_bytes() == before);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  BOOST_TEST(sent(call::number::mem_alloc) == made + 2);
}

BOOST_AUTO_TEST_CASE(a_nodes_memory_exists_from_a_launch_to_its_free) {
  auto p = add(graph, 1000);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemsetD8(p, 1, 4), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemGetAddressRange(&base, &bytes, p), CUDA_ERROR_NOT_FOUND);
  exec = instantiate(graph);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuMemGetAddressRange(&base, &bytes, p + 10));
  BOOST_TEST(base == p);
  BOOST_TEST(bytes == 1000U);
  REQUIRE_OK(cuMemsetD8(p, 1, 4));
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFree(p + 4), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(p));
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuMemFreeAsync(p, stream));
  CHECK_CODE(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(auto_free_lets_a_graph_be_launched_again) {
  auto p = add(graph, mib);
  exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuMemFree(p));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  // Memory that was not freed outlives its graph, and is not allocated twice.
  REQUIRE_OK(cuGraphExecDestroy(exec));
  exec = instantiate(graph);
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(p));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuMemFree(p));
}

BOOST_AUTO_TEST_CASE(memory_in_use_outlives_its_graph) {
  auto before = free_bytes();
  auto p = add(graph, mib);
  exec = instantiate(graph);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuGraphExecDestroy(exec));
  exec = nullptr;
  REQUIRE_OK(cuGraphDestroy(graph));
  REQUIRE_OK(cuDeviceGraphMemTrim(0));
  REQUIRE_OK(cuMemsetD8(p, 7, mib));
  BOOST_TEST(free_bytes() == before - 2 * mib); // a granule
  REQUIRE_OK(cuMemFree(p));
  BOOST_TEST(free_bytes() == before);
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphCreate(&graph, 0));
}

BOOST_AUTO_TEST_CASE(graph_memory_is_freed_once_and_by_the_right_call) {
  CUgraph other = nullptr, third = nullptr;
  REQUIRE_OK(cuGraphCreate(&other, 0));
  REQUIRE_OK(cuGraphCreate(&third, 0));
  CUgraphNode node = nullptr, made = nullptr;
  CUdeviceptr plain = 0;
  REQUIRE_OK(cuMemAlloc(&plain, 64));
  auto p = add(graph, 64, &node);
  for (auto wrong : {plain, CUdeviceptr{0}, p + 8})
    CHECK_CODE(cuGraphAddMemFreeNode(&made, graph, &node, 1, wrong),
               CUDA_ERROR_INVALID_VALUE);
  add_free(graph, p, node);
  CHECK_CODE(cuGraphAddMemFreeNode(&made, graph, &node, 1, p),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphAddMemFreeNode(&made, other, nullptr, 0, p),
             CUDA_ERROR_INVALID_VALUE);
  auto q = add(graph, 64, &node);
  add_free(other, q, nullptr);
  add_free(third, q, nullptr);
  CHECK_CODE(cuGraphAddMemFreeNode(&made, graph, &node, 1, q),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphAddMemFreeNode(&made, other, nullptr, 0, q),
             CUDA_ERROR_INVALID_VALUE);
  exec = instantiate(graph);
  auto frees = instantiate(other);
  CHECK_CODE(cuGraphLaunch(frees, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE); // its graph freed it
  REQUIRE_OK(cuGraphLaunch(frees, stream));
  CHECK_CODE(cuGraphLaunch(frees, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuGraphLaunch(frees, stream));
  REQUIRE_OK(cuGraphExecDestroy(frees));
  REQUIRE_OK(cuGraphDestroy(other));
  REQUIRE_OK(cuGraphDestroy(third));
  REQUIRE_OK(cuMemFree(plain));
}

BOOST_AUTO_TEST_CASE(a_graph_with_memory_nodes_restricts_changes) {
  CUgraph other = nullptr;
  CUgraphNode node = nullptr, empty = nullptr, made = nullptr;
  CUgraphExec second = nullptr;
  add(graph, 64, &node);
  REQUIRE_OK(cuGraphAddEmptyNode(&empty, graph, &node, 1));
  CHECK_CODE(cuGraphDestroyNode(node), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(cuGraphDestroyNode(empty), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(cuGraphRemoveDependencies(graph, &node, &empty, nullptr, 1),
             CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(cuGraphClone(&other, graph), CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE_OK(cuGraphCreate(&other, 0));
  CHECK_CODE(cuGraphAddChildGraphNode(&made, other, nullptr, 0, graph),
             CUDA_ERROR_NOT_SUPPORTED);
  exec = instantiate(graph);
  CHECK_CODE(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
  unsigned enabled = 0;
  CHECK_CODE(cuGraphNodeGetEnabled(exec, node, &enabled),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphNodeSetEnabled(exec, node, 0), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphExecDestroy(exec));
  exec = instantiate(graph);
  CUgraphExecUpdateResultInfo info{};
  REQUIRE_OK(cuGraphExecUpdate(exec, graph, &info));
  REQUIRE_OK(cuGraphDestroy(other));
}

BOOST_AUTO_TEST_CASE(an_update_needs_a_graph_without_another_executable) {
  CUgraph other = nullptr;
  REQUIRE_OK(cuGraphCreate(&other, 0));
  add(graph, 64);
  auto q = add(other, 64);
  exec = instantiate(graph);
  auto its = instantiate(other);
  CUgraphExecUpdateResultInfo info{};
  CHECK_CODE(cuGraphExecUpdate(exec, other, &info), CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE_OK(cuGraphExecDestroy(its));
  REQUIRE_OK(cuGraphExecUpdate(exec, other, &info));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuMemFree(q));
  REQUIRE_OK(cuGraphDestroy(other));
}

BOOST_AUTO_TEST_CASE(a_moved_child_graph_keeps_its_memory) {
  CUgraph child = nullptr;
  CUgraphNode node = nullptr, made = nullptr;
  REQUIRE_OK(cuGraphCreate(&child, 0));
  auto p = add(child, 4096, &node);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph.graph = child;
  CHECK_CODE(cuGraphAddNode(&made, graph, nullptr, nullptr, 0, &params),
             CUDA_ERROR_NOT_SUPPORTED);
  params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  REQUIRE_OK(cuGraphAddNode(&made, graph, nullptr, nullptr, 0, &params));
  CHECK_CODE(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphInstantiate(&exec, child, 0), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(cuGraphAddNode(&made, graph, nullptr, nullptr, 0, &params),
             CUDA_ERROR_NOT_SUPPORTED);
  auto more = wanted(64);
  CHECK_CODE(cuGraphAddMemAllocNode(&made, child, nullptr, 0, &more),
             CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(cuGraphAddMemFreeNode(&made, child, nullptr, 0, p),
             CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE_OK(cuGraphAddEmptyNode(&made, child, nullptr, 0));
  CHECK_CODE(cuGraphDestroyNode(made), CUDA_ERROR_NOT_SUPPORTED);
  exec = instantiate(graph);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(p));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuMemFree(p));
}

BOOST_AUTO_TEST_CASE(parameters_of_memory_nodes_are_checked) {
  CUgraphNode node = nullptr, made = nullptr;
  auto refused = [&](auto params, const std::string& code) {
    BOOST_TEST(name_of(cuGraphAddMemAllocNode(&made, graph, nullptr, 0,
                                              &params)) == code);
  };
  auto x = wanted(0);
  refused(x, "CUDA_ERROR_INVALID_VALUE");
  x = wanted(64);
  x.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  refused(x, "CUDA_ERROR_NOT_SUPPORTED");
  x = wanted(64);
  x.poolProps.location.id = 99;
  refused(x, "CUDA_ERROR_INVALID_VALUE");
  x = wanted(64);
  x.poolProps.location.type = CU_MEM_LOCATION_TYPE_HOST;
  refused(x, "CUDA_ERROR_NOT_SUPPORTED");
  x = wanted(64);
  x.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  refused(x, "CUDA_ERROR_INVALID_VALUE");
  x = wanted(64);
  x.accessDescCount = 1;
  refused(x, "CUDA_ERROR_INVALID_VALUE");
  refused(wanted(total_bytes() * 2 + 2), "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK_CODE(cuGraphAddMemAllocNode(&made, graph, nullptr, 0, nullptr),
             CUDA_ERROR_INVALID_VALUE);

  CUgraphNodeParams any{};
  any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  any.alloc.poolProps = wanted(1).poolProps;
  any.alloc.bytesize = 100;
  REQUIRE_OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &any));
  auto p = any.alloc.dptr;
  CHECK_CODE(cuGraphNodeSetParams(node, &any), CUDA_ERROR_NOT_SUPPORTED);
  any = {};
  any.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  any.free.dptr = p;
  REQUIRE_OK(cuGraphAddNode(&made, graph, &node, nullptr, 1, &any));
  CUDA_MEM_ALLOC_NODE_PARAMS got{};
  REQUIRE_OK(cuGraphMemAllocNodeGetParams(node, &got));
  BOOST_TEST(got.dptr == p);
  BOOST_TEST(got.bytesize == 100U);
  BOOST_TEST(got.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
  CUdeviceptr freed = 0;
  REQUIRE_OK(cuGraphMemFreeNodeGetParams(made, &freed));
  BOOST_TEST(freed == p);
  CHECK_CODE(cuGraphMemAllocNodeGetParams(made, &got),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphMemFreeNodeGetParams(node, &freed),
             CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeType type{};
  REQUIRE_OK(cuGraphNodeGetType(node, &type));
  BOOST_TEST(type == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  REQUIRE_OK(cuGraphNodeGetType(made, &type));
  BOOST_TEST(type == CU_GRAPH_NODE_TYPE_MEM_FREE);
}

BOOST_AUTO_TEST_CASE(captured_allocations_become_nodes) {
  CUdeviceptr kept = 0, passing = 0, none = 7, pooled = 0;
  REQUIRE_OK(cuMemAllocAsync(&pooled, 64, stream));
  CUgraph made = nullptr;
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(cuMemAllocAsync(&kept, 4096, stream));
  REQUIRE_OK(cuMemsetD8Async(kept, 7, 4096, stream));
  CHECK_CODE(cuMemsetD8Async(kept, 7, 4097, stream), CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool pool = nullptr;
  REQUIRE_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  REQUIRE_OK(cuMemAllocFromPoolAsync(&passing, 64, pool, stream));
  REQUIRE_OK(cuMemFreeAsync(passing, stream));
  REQUIRE_OK(cuMemAllocAsync(&none, 0, stream));
  BOOST_TEST(none == 0U);
  REQUIRE_OK(cuMemFreeAsync(0, stream));
  // These are not the graph's. A refused call does not end the capture.
  CHECK_CODE(cuMemFreeAsync(pooled, stream), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFreeAsync(passing, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuStreamEndCapture(stream, &made));
  std::size_t count = 0;
  REQUIRE_OK(cuGraphGetNodes(made, nullptr, &count));
  BOOST_TEST(count == 4U);
  exec = instantiate(made);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  std::array<unsigned char, 4> got{};
  REQUIRE_OK(cuMemcpyDtoH(got.data(), kept + 4092, got.size()));
  BOOST_TEST(got[3] == 7);
  CUgraph frees = nullptr;
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(cuMemFreeAsync(kept, stream));
  REQUIRE_OK(cuStreamEndCapture(stream, &frees));
  auto last = instantiate(frees);
  REQUIRE_OK(cuGraphLaunch(last, stream));
  CHECK_CODE(cuMemFreeAsync(kept, stream), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphExecDestroy(last));
  REQUIRE_OK(cuGraphDestroy(frees));
  REQUIRE_OK(cuGraphDestroy(made));
  REQUIRE_OK(cuMemFreeAsync(pooled, stream));
}

BOOST_AUTO_TEST_CASE(the_quota_bounds_graph_memory_in_use_at_once) {
  // Other memory takes all but a little of the quota.
  CUmemAllocationProp plain{};
  plain.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  plain.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle rest = 0;
  REQUIRE_OK(cuMemCreate(
      &rest, free_bytes() / granule_bytes * granule_bytes - 10 * granule_bytes,
      &plain, 0));
  auto part = free_bytes() / 10 * 6;
  // Each allocation uses the room that the one before freed.
  CUgraphNode node = nullptr;
  for (int i = 0; i < 2; ++i) {
    auto p = add(graph, part, &node, node);
    node = add_free(graph, p, node);
  }
  exec = instantiate(graph);
  REQUIRE_OK(cuGraphUpload(exec, stream));
  for (int i = 0; i < 2; ++i)
    REQUIRE_OK(cuGraphLaunch(exec, stream));
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == part);

  // Both at once exceed the quota, and the launch fails before any work.
  CUgraph both = nullptr;
  REQUIRE_OK(cuGraphCreate(&both, 0));
  auto p = add(both, part, &node);
  auto q = add(both, part, nullptr, node);
  auto too_much = instantiate(both);
  auto made = sent(call::number::mem_alloc);
  CHECK_CODE(cuGraphLaunch(too_much, stream), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_CODE(cuGraphUpload(too_much, stream), CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(sent(call::number::mem_alloc) == made);
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFree(q), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuGraphExecDestroy(too_much));
  REQUIRE_OK(cuGraphDestroy(both));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuMemRelease(rest));
}

// A launch near the quota counts granules, which small memory shares.
BOOST_AUTO_TEST_CASE(small_graph_memory_needs_only_what_it_shares) {
  std::vector<CUdeviceptr> all;
  CUgraphNode node = nullptr;
  for (int i = 0; i < 60; ++i)
    all.push_back(add(graph, 40000, &node, node));
  exec = instantiate(graph);
  CUmemGenericAllocationHandle rest = 0;
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  auto left = free_bytes();
  REQUIRE_OK(cuMemCreate(&rest, left, &what, 0));
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE_OK(cuMemRelease(rest));
  // They lie in two granules, or in three if they begin in the midst of one.
  REQUIRE_OK(cuMemCreate(&rest, left - 6 * mib, &what, 0));
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  for (auto p : all)
    REQUIRE_OK(cuMemFreeAsync(p, stream));
  REQUIRE_OK(cuMemRelease(rest));
}

BOOST_AUTO_TEST_CASE(a_graph_may_allocate_more_than_the_device_has) {
  auto p = add(graph, total_bytes() + 1);
  exec = instantiate(graph);
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(words_of_graph_memory_can_be_written_in_the_graph) {
  CUdeviceptr p = 0;
  CUgraph made = nullptr;
  CHECK_CODE(cuStreamWriteValue32(stream, add(graph, 64), 5, 0),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  REQUIRE_OK(cuMemAllocAsync(&p, 64, stream));
  REQUIRE_OK(cuStreamWriteValue32(stream, p, 5, 0));
  REQUIRE_OK(cuStreamEndCapture(stream, &made));
  exec = instantiate(made);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  int got = 0;
  REQUIRE_OK(cuMemcpyDtoH(&got, p, sizeof(got)));
  BOOST_TEST(got == 5);
  REQUIRE_OK(cuMemFree(p));
  REQUIRE_OK(cuGraphDestroy(made));
}

BOOST_AUTO_TEST_CASE(a_launch_that_fails_leaves_nothing_in_use) {
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
  REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
  CUgraphNode node = nullptr, kernel = nullptr;
  auto p = add(graph, 64, &node);
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = none;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  REQUIRE_OK(cuGraphAddKernelNode(&kernel, graph, &node, 1, &params));
  exec = instantiate(graph);
  REQUIRE_OK(cuModuleUnload(module));
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(graph_memory_may_be_of_another_device) {
  auto params = wanted(mib);
  params.poolProps.location.id = 1;
  CUgraphNode node = nullptr;
  REQUIRE_OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  exec = instantiate(graph);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  int device = -1;
  REQUIRE_OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   params.dptr));
  BOOST_TEST(device == 1);
  cuuint64_t there = 0;
  REQUIRE_OK(cuDeviceGetGraphMemAttribute(1, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                                          &there));
  BOOST_TEST(there == mib);
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0U);
  REQUIRE_OK(cuMemFree(params.dptr));
  REQUIRE_OK(cuDeviceGraphMemTrim(1));
  REQUIRE_OK(cuDeviceGetGraphMemAttribute(1, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                                          &there));
  BOOST_TEST(there == 0U);
}

BOOST_AUTO_TEST_CASE(a_reset_frees_all_graph_memory) {
  auto p = add(graph, mib);
  exec = instantiate(graph);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == mib);
  REQUIRE_OK(cuDevicePrimaryCtxReset(0));
  REQUIRE_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  REQUIRE_OK(cuCtxSetCurrent(primary));
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0U);
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  stream = nullptr;
}

BOOST_AUTO_TEST_CASE(an_upload_allocates_the_memory) {
  CUgraphNode node = nullptr;
  add_free(graph, add(graph, mib, &node), node);
  CUDA_GRAPH_INSTANTIATE_PARAMS with{};
  REQUIRE_OK(cuGraphInstantiateWithParams(&exec, graph, &with));
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0U);
  REQUIRE_OK(cuGraphExecDestroy(exec));
  with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  with.hUploadStream = stream;
  REQUIRE_OK(cuGraphInstantiateWithParams(&exec, graph, &with));
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == mib);
}

BOOST_AUTO_TEST_CASE(graph_memory_has_attributes) {
  CUgraphNode node = nullptr;
  auto p = add(graph, mib, &node);
  add_free(graph, p, node);
  exec = instantiate(graph);
  REQUIRE_OK(cuGraphUpload(exec, stream));
  for (auto which :
       {CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH})
    BOOST_TEST(attribute(which) == mib);
  REQUIRE_OK(cuGraphLaunch(exec, stream));
  REQUIRE_OK(cuDeviceGraphMemTrim(0));
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0U);
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0U);
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == mib);
  cuuint64_t none = 0, five = 5;
  auto set = [](CUgraphMem_attribute which, cuuint64_t& to) {
    return cuDeviceSetGraphMemAttribute(0, which, &to);
  };
  CHECK_CODE(set(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, five),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(set(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, none),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(set(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, none));
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 0U);
  BOOST_TEST(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == mib);
  auto unknown = unknown_value<CUgraphMem_attribute>(4);
  CHECK_CODE(set(unknown, none), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDeviceGetGraphMemAttribute(0, unknown, &none),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDeviceGetGraphMemAttribute(
                 99, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &none),
             CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(cuDeviceGraphMemTrim(99), CUDA_ERROR_INVALID_DEVICE);
}

BOOST_AUTO_TEST_SUITE_END()
