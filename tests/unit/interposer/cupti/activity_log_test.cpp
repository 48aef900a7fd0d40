// What tools learn of a program's calls and work, from the library as they use
// it.
#include "interposer/cupti/cupti_bridge.hpp"
#include "tests/unit/interposer/driver_fixture.hpp"

#include <cstring>
#include <set>
#include <vector>

using namespace vgpu::test;
using vgpu::interposer::activity;
using vgpu::interposer::activity_kind;
using vgpu::interposer::cupti_bridge;
using vgpu::interposer::memory_place;

namespace {

const cupti_bridge& bridge() {
  CUuuid id;
  std::memcpy(id.bytes, vgpu::interposer::cupti_bridge_id.data(),
              sizeof id.bytes);
  const void* out = nullptr;
  REQUIRE_OK(cuGetExportTable(&out, &id));
  return *static_cast<const cupti_bridge*>(out);
}

struct traced_program : driver_fixture {
  traced_program() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
    REQUIRE_OK(cuMemAlloc(&memory, bytes));
    REQUIRE_OK(by.gather(1));
  }
  ~traced_program() {
    by.listen(nullptr);
    by.gather(0);
    fake().tell_times(1);
    cuMemFree(memory);
    cuModuleUnload(module);
  }

  std::vector<activity> take() {
    std::vector<activity> out;
    REQUIRE_OK(by.take(
        [](void* to, const activity* x) {
          static_cast<std::vector<activity>*>(to)->push_back(*x);
        },
        &out));
    return out;
  }
  std::vector<activity> take(activity_kind kind) {
    auto out = take();
    std::erase_if(out, [&](auto& x) { return x.kind != kind; });
    return out;
  }
  void launch(CUstream in = nullptr) {
    REQUIRE_OK(
        cuLaunchKernel(none, 2, 3, 4, 32, 2, 1, 16, in, nullptr, nullptr));
  }

  static constexpr std::size_t bytes = std::size_t{9} << 20;
  const cupti_bridge& by = bridge();
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  CUdeviceptr memory = 0;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(activities, traced_program)

BOOST_AUTO_TEST_CASE(a_kernel_is_told_with_its_name_shape_and_times) {
  launch();
  REQUIRE_OK(cuCtxSynchronize());
  auto all = take(activity_kind::kernel);
  BOOST_REQUIRE(all.size() == 1U);
  const auto& k = all.front();
  BOOST_TEST(std::string{k.name} == "none");
  BOOST_TEST(k.grid[2] == 4U);
  BOOST_TEST(k.block[0] == 32U);
  BOOST_TEST(k.dynamic_shared == 16U);
  BOOST_TEST(k.called != 0U);
  BOOST_TEST(k.called <= k.received);
  BOOST_TEST(k.received <= k.began);
  BOOST_TEST(k.began <= k.ended);
}

BOOST_AUTO_TEST_CASE(a_call_and_its_work_have_one_correlation) {
  launch();
  launch();
  REQUIRE_OK(cuCtxSynchronize());
  std::set<std::uint32_t> calls, kernels;
  for (const auto& x : take())
    if (x.kind == activity_kind::kernel)
      kernels.insert(x.correlation);
    else if (x.kind == activity_kind::call &&
             std::string{x.name} == "cuLaunchKernel")
      calls.insert(x.correlation);
  BOOST_TEST(kernels.size() == 2U);
  BOOST_TEST((calls == kernels));
}

BOOST_AUTO_TEST_CASE(times_that_come_twice_count_once) {
  fake().tell_times(3);
  launch();
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(take(activity_kind::kernel).size() == 1U);
  launch();
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(take(activity_kind::kernel).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_long_copy_is_one_activity_in_each_direction) {
  std::vector<char> host(bytes, 1);
  REQUIRE_OK(cuMemcpyHtoD(memory, host.data(), bytes));
  REQUIRE_OK(cuMemcpyDtoH(host.data(), memory, bytes));
  auto all = take(activity_kind::copy);
  BOOST_REQUIRE(all.size() == 2U);
  BOOST_TEST(all[0].bytes == bytes);
  BOOST_TEST((all[0].from == memory_place::pageable));
  BOOST_TEST((all[0].to == memory_place::device));
  BOOST_TEST(all[1].bytes == bytes);
  BOOST_TEST((all[1].from == memory_place::device));
  BOOST_TEST((all[1].to == memory_place::pageable));
}

BOOST_AUTO_TEST_CASE(fills_and_waits_are_told) {
  CUstream stream = nullptr;
  REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE_OK(cuMemsetD32Async(memory, 7, 100, stream));
  REQUIRE_OK(cuStreamSynchronize(stream));
  std::uint32_t id = 0;
  REQUIRE_OK(by.stream(primary, stream, 0, &id));
  auto seen = 0;
  for (const auto& x : take())
    if (x.kind == activity_kind::fill) {
      ++seen;
      BOOST_TEST(x.bytes == 400U);
      BOOST_TEST(x.value == 7U);
      BOOST_TEST(x.stream == id);
      BOOST_TEST(x.is_async == 1U);
    } else if (x.kind == activity_kind::wait) {
      ++seen;
      BOOST_TEST(x.stream == id);
      BOOST_TEST((x.waits_for == vgpu::interposer::wait_kind::stream));
    }
  BOOST_TEST(seen == 2);
  REQUIRE_OK(cuStreamDestroy(stream));
}

BOOST_AUTO_TEST_CASE(nothing_is_told_when_nobody_gathers) {
  REQUIRE_OK(by.gather(0));
  launch();
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(take().empty());
  REQUIRE_OK(by.gather(1));
  launch();
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(take(activity_kind::kernel).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_listener_sees_names_and_arguments) {
  struct seen_call {
    std::string name;
    std::size_t last = 0;
  };
  static std::vector<seen_call> begun, ended;
  begun.clear();
  ended.clear();
  static const vgpu::interposer::cupti_listener to{
      [](activity* x) {
        x->mark = 5;
        begun.push_back({x->name, 0});
      },
      [](const activity* x) {
        // cuMemcpyHtoD: an address, a pointer, a size
        std::size_t size = 0;
        if (std::string_view{x->name} == "cuMemcpyHtoD_v2")
          std::memcpy(&size, static_cast<const char*>(x->arguments) + 16,
                      sizeof size);
        ended.push_back({x->name, size});
      }};
  REQUIRE_OK(by.listen(&to));
  char byte = 1;
  REQUIRE_OK(cuMemcpyHtoD(memory, &byte, 1));
  REQUIRE_OK(by.listen(nullptr));
  BOOST_REQUIRE(begun.size() == 1U);
  BOOST_REQUIRE(ended.size() == 1U);
  BOOST_TEST(begun.front().name == "cuMemcpyHtoD_v2");
  BOOST_TEST(ended.front().last == 1U);
  REQUIRE_OK(cuCtxSynchronize());
  auto copies = take(activity_kind::copy);
  BOOST_REQUIRE(copies.size() == 1U);
  BOOST_TEST(copies.front().mark == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
