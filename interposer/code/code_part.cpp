#include "interposer/code/code_part.hpp"

#include "interposer/context/context_part.hpp"

namespace vgpu::interposer {

code_part::code_part(context_part& contexts) {
  contexts.at_end(context_end::code, unload_all);
}

} // namespace vgpu::interposer
