#include "interposer/memory/memory_part.hpp"

#include "interposer/context/context_part.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/session/session_part.hpp"

namespace vgpu::interposer {

memory_part::memory_part(session_part& session, context_part& contexts) {
  session.before_wait.set([] {
    vgpu::interposer::registered().put_changes();
    zero_copy_memory::tell_now();
  });
  session.after_wait.set([] { vgpu::interposer::registered().take_changes(); });
  session.at_wait.set(trim_pools_after_wait);
  contexts.at_end(context_end::memory, [](context& of) {
    destroy_textures(of);
    destroy_arrays(of);
    free_all(of);
  });
}

synchronous_memory& synchronous() noexcept {
  return memory_part::get().synchronous;
}

} // namespace vgpu::interposer
