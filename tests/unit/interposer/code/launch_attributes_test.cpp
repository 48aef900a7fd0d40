// Attributes of launches: their values, what goes to the device, and events.
#include "tests/unit/interposer/driver_fixture.hpp"

#include "schema/base/launch_hint.hpp"

#include <algorithm>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

struct attribute_fixture : driver_fixture {
  CUmodule module = nullptr;
  CUfunction none = nullptr;
  CUstream stream = nullptr;

  attribute_fixture() {
    REQUIRE_OK(cuModuleLoadData(&module, ".version 8.0\n"));
    REQUIRE_OK(cuModuleGetFunction(&none, module, "none"));
    REQUIRE_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  ~attribute_fixture() {
    cuStreamDestroy(stream);
    cuModuleUnload(module);
  }

  CUresult launch(std::vector<CUlaunchAttribute> attributes) {
    CUlaunchConfig config{};
    config.gridDimX = 8;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    return cuLaunchKernelEx(&config, none, nullptr, nullptr);
  }
  template <class Set>
  CUresult with(CUlaunchAttributeID id, const Set& set) {
    CUlaunchAttribute x{};
    x.id = id;
    set(x.value);
    return launch({x});
  }

  /// Returns the hints of the newest launch.
  std::vector<launch_hint> hints() {
    BOOST_TEST(cuCtxSynchronize() == CUDA_SUCCESS);
    auto seen = fake().launches().back();
    std::vector<launch_hint> out;
    std::span<const std::byte> parameters;
    if ((seen.call.flags & call::launch::hinted) != 0)
      BOOST_TEST(take_hints(seen.parameters, parameters, out));
    BOOST_TEST(parameters.empty());
    return out;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(launch_attributes, attribute_fixture)

BOOST_AUTO_TEST_CASE(hints_reach_the_device) {
  REQUIRE_OK(launch({}));
  BOOST_TEST(hints().empty());
  CUlaunchAttribute priority{}, domain{}, ignored{};
  priority.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  priority.value.priority = -3;
  domain.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
  domain.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  ignored.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  REQUIRE_OK(launch({ignored, priority, domain}));
  auto got = hints();
  BOOST_REQUIRE(got.size() == 2U);
  BOOST_TEST(got[0].attribute == unsigned{CU_LAUNCH_ATTRIBUTE_PRIORITY});
  BOOST_TEST(static_cast<int>(got[0].value[0]) == -3);
  BOOST_TEST(got[1].attribute == unsigned{CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN});
}

BOOST_AUTO_TEST_CASE(a_window_is_a_hint_where_it_lies_on_the_device) {
  CUdeviceptr memory = 0;
  REQUIRE_OK(cuMemAlloc(&memory, 4096));
  auto window = [&](CUdeviceptr at, float ratio) {
    return with(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, [&](auto& x) {
      x.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(at);
      x.accessPolicyWindow.num_bytes = 4096;
      x.accessPolicyWindow.hitRatio = ratio;
      x.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
    });
  };
  REQUIRE_OK(window(memory, 0.5f));
  BOOST_TEST(hints().size() == 1U);
  REQUIRE_OK(window(4096, 0.5f));
  BOOST_TEST(hints().empty());
  CHECK_CODE(window(memory, 1.5f), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(memory));
}

BOOST_AUTO_TEST_CASE(values_out_of_their_range_are_refused) {
  auto bad = CUDA_ERROR_INVALID_VALUE;
  auto code = [&](CUlaunchAttributeID id, unsigned value) {
    return with(id, [&](auto& x) { x.sharedMemCarveout = value; });
  };
  BOOST_TEST(code(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 2) == bad);
  BOOST_TEST(code(CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, 2) ==
             bad);
  BOOST_TEST(
      code(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 3) == bad);
  BOOST_TEST(code(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101) ==
             bad);
  BOOST_TEST(code(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50) ==
             CUDA_SUCCESS);
  BOOST_TEST(code(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, 1) == bad);
  BOOST_TEST(code(unknown_value<CUlaunchAttributeID>(40), 0) == bad);
}

BOOST_AUTO_TEST_CASE(preferred_clusters_are_whole_numbers_of_clusters) {
  auto code = [&](unsigned x) {
    CUlaunchAttribute cluster{}, preferred{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {2, 1, 1};
    preferred.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
    preferred.value.preferredClusterDim = {x, 1, 1};
    return launch({preferred, cluster});
  };
  CHECK_CODE(code(4), CUDA_SUCCESS);
  CHECK_CODE(code(3), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(code(6), CUDA_ERROR_INVALID_VALUE); // the grid has 8 blocks
  CHECK_CODE(code(0), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_launch_records_its_events) {
  CUevent event = nullptr, timed = nullptr, shared = nullptr;
  REQUIRE_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  REQUIRE_OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
  REQUIRE_OK(
      cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  auto records = [] {
    return fake().counts()[static_cast<std::uint16_t>(call::event_record::id)];
  };
  auto completed = [&](CUevent x, int flags) {
    return with(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, [&](auto& value) {
      value.launchCompletionEvent = {x, flags};
    });
  };
  auto before = records();
  REQUIRE_OK(completed(event, 0));
  REQUIRE_OK(cuEventSynchronize(event));
  BOOST_TEST(records() == before + 1);
  REQUIRE_OK(with(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, [&](auto& value) {
    value.programmaticEvent = {event, 0, 1};
  }));
  REQUIRE_OK(cuEventSynchronize(event));
  BOOST_TEST(records() == before + 2);
  CHECK_CODE(completed(event, CU_EVENT_RECORD_EXTERNAL),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(completed(timed, 0), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(completed(shared, 0), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(completed(nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
  BOOST_TEST(records() == before + 2);
  for (auto* x : {event, timed, shared})
    REQUIRE_OK(cuEventDestroy(x));
}

BOOST_AUTO_TEST_CASE(only_streams_have_a_policy_of_waiting) {
  CHECK_CODE(with(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                  [](auto& x) { x.syncPolicy = CU_SYNC_POLICY_SPIN; }),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(launch({}));
}

BOOST_AUTO_TEST_CASE(nothing_has_no_name) {
  const char* name = nullptr;
  CHECK_CODE(cuFuncGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuKernelGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
