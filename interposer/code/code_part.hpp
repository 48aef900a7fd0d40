// The part of the driver's state that belongs to code/.
#pragma once

#include "interposer/code/linker.hpp"
#include "interposer/code/module.hpp"
#include "interposer/session/state_part.hpp"

#include <atomic>
#include <cstdint>

namespace vgpu::interposer {

struct context_part;

/// Reads CUDA_LAUNCH_BLOCKING. Like the driver, it takes any number but 0.
bool environment_asks_to_wait() noexcept;

/// Owns all modules, libraries and links under way.
struct code_part : state_part<code_part> {
  /// Registers the step at the end of a context.
  explicit code_part(context_part& contexts);

  handle_table<module> modules{handle_kind::module};
  handle_table<library> libraries{handle_kind::library};
  handle_table<function_reference> functions{handle_kind::function};
  handle_table<kernel_reference> kernels{handle_kind::kernel};
  link_table links;

  /// Tells whether each launch waits for its kernel, as CUDA_LAUNCH_BLOCKING
  /// asked when the driver was initialised.
  const bool launches_wait = environment_asks_to_wait();

  /// Holds the latest id of a module.
  std::atomic<std::uint64_t> last_module{0};
};

} // namespace vgpu::interposer
