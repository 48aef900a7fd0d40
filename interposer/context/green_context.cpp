#include "interposer/context/green_context.hpp"

namespace vgpu::interposer {

CUresult create_green_context(const sm_part& what, CUgreenCtx& out) {
  auto part = std::make_unique<green_part>(green_part{what});
  // A green context's part can be cut again, and counts on its own.
  part->what.split = part->what.first = 0;
  auto& primary = contexts().primary(what.device);
  context* made = nullptr;
  if (auto code = contexts().create_green(primary, std::move(part), made);
      code != CUDA_SUCCESS)
    return code;
  out = green_handle_of(*made);
  return CUDA_SUCCESS;
}

context* find_green_context(CUgreenCtx handle) noexcept {
  auto* x = contexts().find(reinterpret_cast<CUcontext>(handle));
  return x != nullptr && x->is_green() ? x : nullptr;
}

CUgreenCtx green_handle_of(const context& x) noexcept {
  return x.is_green() ? reinterpret_cast<CUgreenCtx>(x.handle) : nullptr;
}

} // namespace vgpu::interposer
