// How much of a thread's stack the driver's calls take. A program may give its
// threads small stacks.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include <pthread.h>

using namespace vgpu;
using namespace vgpu::test;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// Sanitizers enlarge frames.
BOOST_AUTO_TEST_SUITE(stacks)
BOOST_AUTO_TEST_CASE(are_not_measured_under_sanitizers) {
  BOOST_TEST_MESSAGE("not under sanitizers");
}
BOOST_AUTO_TEST_SUITE_END()

#else

namespace {

/// A call takes at most this much in addition to what the thread itself needs.
constexpr std::size_t most = std::size_t{8} << 10;

/// Runs `body` on a thread of its own, and returns the bytes of its stack that
/// were written.
std::size_t stack_of(std::function<void()> body) {
  constexpr auto paint = std::byte{0xa5};
  constexpr std::size_t bytes = std::size_t{256} << 10;
  alignas(4096) static std::byte stack[bytes];
  std::fill(std::begin(stack), std::end(stack), paint);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstack(&attributes, stack, bytes);
  pthread_t thread{};
  auto run = [](void* x) -> void* {
    (*static_cast<std::function<void()>*>(x))();
    return nullptr;
  };
  BOOST_TEST_REQUIRE(::pthread_create(&thread, &attributes, run, &body) == 0);
  ::pthread_join(thread, nullptr);
  ::pthread_attr_destroy(&attributes);
  auto* first = std::find_if(std::begin(stack), std::end(stack),
                             [&](auto x) { return x != paint; });
  return static_cast<std::size_t>(std::end(stack) - first);
}

struct stack_fixture : driver_fixture {
  std::size_t idle = stack_of([] {});

  std::size_t taken_by(const std::function<void()>& call) const {
    return stack_of([&] {
             cuCtxSetCurrent(primary);
             call();
           }) -
           idle;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(stacks, stack_fixture)

BOOST_AUTO_TEST_CASE(memory_and_copies_need_little_stack) {
  BOOST_TEST(taken_by([] {
               CUdeviceptr x = 0;
               std::vector<char> host(1 << 20);
               cuMemAlloc(&x, host.size());
               cuMemcpyHtoD(x, host.data(), host.size());
               cuMemcpyDtoH(host.data(), x, host.size());
               cuMemsetD8(x, 1, 100);
               cuMemFree(x);
             }) < most);
}

BOOST_AUTO_TEST_CASE(launches_and_graphs_need_little_stack) {
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
  REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
  BOOST_TEST(taken_by([none] {
               cuLaunchKernel(none, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr,
                              nullptr);
               cuCtxSynchronize();
             }) < most);
  BOOST_TEST(taken_by([none] {
               CUgraph graph = nullptr;
               CUgraphNode node = nullptr;
               CUDA_KERNEL_NODE_PARAMS what{};
               what.func = none;
               what.gridDimX = what.gridDimY = what.gridDimZ = 1;
               what.blockDimX = what.blockDimY = what.blockDimZ = 1;
               cuGraphCreate(&graph, 0);
               cuGraphAddKernelNode(&node, graph, nullptr, 0, &what);
               cuGraphDestroy(graph);
             }) < most);
  REQUIRE_OK(cuModuleUnload(module));
}

BOOST_AUTO_TEST_CASE(a_touch_of_managed_memory_needs_little_stack) {
  CUdeviceptr x = 0;
  REQUIRE_OK(cuMemAllocManaged(&x, 1 << 20, CU_MEM_ATTACH_GLOBAL));
  REQUIRE_OK(cuMemPrefetchAsync(x, 1 << 20, {CU_MEM_LOCATION_TYPE_DEVICE, {0}},
                                0, nullptr));
  BOOST_TEST(taken_by([x] { *reinterpret_cast<volatile char*>(x) = 1; }) <
             most);
  REQUIRE_OK(cuMemFree(x));
}

BOOST_AUTO_TEST_SUITE_END()

#endif
