// Settings of core dumps, which are kept and told.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <string>

#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;

namespace {

bool flag(CUcoredumpSettings which) {
  bool out = false;
  auto size = sizeof(out);
  REQUIRE_OK(cuCoredumpGetAttributeGlobal(which, &out, &size));
  BOOST_TEST(size == sizeof(out));
  return out;
}

CUresult set_flag(CUcoredumpSettings which, bool to) {
  auto size = sizeof(to);
  return cuCoredumpSetAttributeGlobal(which, &to, &size);
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(core_dumps, driver_fixture)

BOOST_AUTO_TEST_CASE(settings_of_core_dumps_are_told_again) {
  BOOST_TEST(!flag(CU_COREDUMP_ENABLE_ON_EXCEPTION));
  BOOST_TEST(flag(CU_COREDUMP_TRIGGER_HOST));
  REQUIRE_OK(set_flag(CU_COREDUMP_LIGHTWEIGHT, true));
  BOOST_TEST(flag(CU_COREDUMP_LIGHTWEIGHT));
  unsigned flags = 0;
  auto size = sizeof(flags);
  REQUIRE_OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags,
                                          &size));
  BOOST_TEST(flags == unsigned{CU_COREDUMP_LIGHTWEIGHT_FLAGS});
  flags = CU_COREDUMP_SKIP_ABORT;
  REQUIRE_OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags,
                                          &size));
  BOOST_TEST(!flag(CU_COREDUMP_LIGHTWEIGHT));
  BOOST_TEST(!flag(CU_COREDUMP_TRIGGER_HOST));
  REQUIRE_OK(set_flag(CU_COREDUMP_TRIGGER_HOST, true));
}

BOOST_AUTO_TEST_CASE(a_name_is_told_with_its_host_and_process) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  char pattern[] = "/tmp/core_%h_%p";
  auto size = sizeof(pattern);
  REQUIRE_OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, pattern, &size));
  std::array<char, 1024> got{};
  size = got.size();
  REQUIRE_OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, got.data(), &size));
  auto wanted = std::string{"/tmp/core_"} + host.data() + "_" +
                std::to_string(::getpid());
  BOOST_TEST(got.data() == wanted);
  BOOST_TEST(size == wanted.size() + 1);
  size = 4;
  CHECK_CODE(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, got.data(), &size),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, nullptr, &size));
  BOOST_TEST(size == 1024U);
}

BOOST_AUTO_TEST_CASE(a_context_takes_the_settings_that_hold_as_it_begins) {
  REQUIRE_OK(set_flag(CU_COREDUMP_LIGHTWEIGHT, true));
  CUcontext own = nullptr;
  REQUIRE_OK(cuCtxCreate_v4(&own, nullptr, CU_CTX_COREDUMP_ENABLE, 0));
  REQUIRE_OK(set_flag(CU_COREDUMP_LIGHTWEIGHT, false));
  auto mine = [](CUcoredumpSettings which) {
    bool out = false;
    auto size = sizeof(out);
    REQUIRE_OK(cuCoredumpGetAttribute(which, &out, &size));
    return out;
  };
  BOOST_TEST(mine(CU_COREDUMP_LIGHTWEIGHT));
  BOOST_TEST(mine(CU_COREDUMP_ENABLE_ON_EXCEPTION));
  auto off = false;
  auto size = sizeof(off);
  REQUIRE_OK(cuCoredumpSetAttribute(CU_COREDUMP_LIGHTWEIGHT, &off, &size));
  BOOST_TEST(!mine(CU_COREDUMP_LIGHTWEIGHT));
  CHECK_CODE(
      cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_USER_TRIGGER, &off, &size),
      CUDA_ERROR_NOT_PERMITTED);
  REQUIRE_OK(cuCtxDestroy(own));
}

BOOST_AUTO_TEST_CASE(bad_settings_of_core_dumps_are_refused) {
  auto on = true;
  std::size_t size = 0;
  CHECK_CODE(cuCoredumpSetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &on, &size),
             CUDA_ERROR_INVALID_VALUE);
  size = 1;
  CHECK_CODE(cuCoredumpSetAttributeGlobal(CU_COREDUMP_MAX, &on, &size),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(
      cuCoredumpGetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &on, nullptr),
      CUDA_ERROR_INVALID_VALUE);
  std::string longest(2000, 'x');
  size = longest.size();
  CHECK_CODE(
      cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, longest.data(), &size),
      CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
