#include "tests/unit/interposer/driver_fixture.hpp"

#include <cstdlib>
#include <string>

#include <unistd.h>

namespace vgpu::test {

fake_client& fake() {
  static auto& one = []() -> auto& {
    auto manager =
        "ipc:///nowhere/interposer-test-" + std::to_string(::getpid());
    ::setenv("VGPU_MANAGER", manager.c_str(), 1);
    ::setenv("VGPU_JOURNAL", "67108864", 1);
    ::setenv("VGPU_PROTECT", "none", 1);
    return *new fake_client{manager, {.devices = 2, .refusal = {}}};
  }
  ();
  return one;
}

driver_fixture::driver_fixture() {
  fake();
  REQUIRE_OK(cuInit(0));
  REQUIRE_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  REQUIRE_OK(cuCtxSetCurrent(primary));
}

driver_fixture::~driver_fixture() {
  cuCtxSetCurrent(nullptr);
  cuDevicePrimaryCtxRelease(0);
}

} // namespace vgpu::test
