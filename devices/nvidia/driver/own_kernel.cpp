#include "devices/nvidia/driver/own_kernel.hpp"

namespace vgpu::device::nvidia {

result<std::vector<CUfunction>>
load_own_kernels(const driver_ptr& api, const char* ptx,
                 std::initializer_list<const char*> names) {
  CUmodule module = nullptr;
  auto ok =
      api->check(api->cuModuleLoadDataEx(&module, ptx, 0, nullptr, nullptr),
                 "cuModuleLoadDataEx");
  std::vector<CUfunction> out;
  for (auto* name : names) {
    CUfunction kernel = nullptr;
    if (ok)
      ok = api->check(api->cuModuleGetFunction(&kernel, module, name),
                      "cuModuleGetFunction");
    if (ok)
      ok = api->check(api->cuFuncLoad(kernel), "cuFuncLoad");
    out.push_back(kernel);
  }
  if (!ok)
    return ok.why();
  return out;
}

} // namespace vgpu::device::nvidia
