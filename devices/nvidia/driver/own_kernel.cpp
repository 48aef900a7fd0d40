#include "devices/nvidia/driver/own_kernel.hpp"

namespace vgpu::device::nvidia {

result<CUfunction> load_own_kernel(const driver_ptr& api, const char* ptx) {
  CUmodule module = nullptr;
  auto ok =
      api->check(api->cuModuleLoadDataEx(&module, ptx, 0, nullptr, nullptr),
                 "cuModuleLoadDataEx");
  CUfunction kernel = nullptr;
  if (ok)
    ok = api->check(api->cuModuleEnumerateFunctions(&kernel, 1, module),
                    "cuModuleEnumerateFunctions");
  if (ok)
    ok = api->check(api->cuFuncLoad(kernel), "cuFuncLoad");
  if (!ok)
    return ok.why();
  return kernel;
}

} // namespace vgpu::device::nvidia
