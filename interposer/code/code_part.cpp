#include "interposer/code/code_part.hpp"

#include "interposer/context/context_part.hpp"

#include <cstdlib>

namespace vgpu::interposer {

bool environment_asks_to_wait() noexcept {
  const auto* text = std::getenv("CUDA_LAUNCH_BLOCKING");
  return text != nullptr && std::atoi(text) != 0;
}

code_part::code_part(context_part& contexts) {
  contexts.at_end(context_end::code, unload_all);
}

} // namespace vgpu::interposer
