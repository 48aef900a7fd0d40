// What code/ has of the driver's state.
#pragma once

#include "interposer/code/linker.hpp"
#include "interposer/code/module.hpp"
#include "interposer/session/state_part.hpp"

#include <atomic>
#include <cstdint>

namespace vgpu::interposer {

struct context_part;

/// code/ owns all modules, libraries and links under way.
struct code_part : state_part<code_part> {
  /// Registers what happens when a context ends.
  explicit code_part(context_part& contexts);

  handle_table<module> modules{handle_kind::module};
  handle_table<library> libraries{handle_kind::library};
  handle_table<function_reference> functions{handle_kind::function};
  handle_table<kernel_reference> kernels{handle_kind::kernel};
  link_table links;

  /// This is the latest id of a module.
  std::atomic<std::uint64_t> last_module{0};
};

} // namespace vgpu::interposer
