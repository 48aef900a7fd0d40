// The part of the driver's state that belongs to context/.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/context/device_resource.hpp"
#include "interposer/context/peers.hpp"
#include "interposer/session/state_part.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace vgpu::interposer {

/// Names the steps at the end of a context, in their order
/// (context_registry::reset).
enum class context_end : std::uint8_t {
  launches, ///< launches of graphs with conditions; runs while the
            ///< context is still active
  code,     ///< modules
  memory,   ///< textures, arrays and all allocations; after the streams
};

/// Owns all contexts, and calls the folders above when one begins or ends.
///
///   context begins ──► make_streams
///   context ends ────► launches ─► (inactive) ─► code ─► streams ─► memory
struct context_part : state_part<context_part> {
  /// Frees the objects of the context that belong to one folder.
  using end_step = void (*)(context& of);

  context_registry contexts;
  handle_table<sm_part> resource_descriptors{handle_kind::resource_descriptor};
  peer_list peers;
  /// Holds what contexts that are made from now on begin with.
  core_dump_settings core_dump = core_dump_settings::of_environment();
  /// Counts the calls that cut a device (sm_part::split).
  std::atomic<std::uint64_t> last_split{0};

  /// Counts, by device, the modules that stay loaded although their context has
  /// ended. code/ counts them. A device that has some keeps its limits, because
  /// these modules may use its heap.
  std::array<std::atomic<unsigned>, 64> modules_left{};

  /// Makes the streams of a new context. stream/ registers this function.
  std::unique_ptr<context_streams> (*make_streams)(context& of) = nullptr;

  /// Registers a step of a context's end. Precondition: no other thread
  /// knows the state yet.
  void at_end(context_end when, end_step what) noexcept {
    end_steps_[static_cast<std::size_t>(when)] = what;
  }
  /// Runs a step that was registered.
  void end(context_end which, context& of) const {
    end_steps_[static_cast<std::size_t>(which)](of);
  }

private:
  std::array<end_step, 3> end_steps_{};
};

} // namespace vgpu::interposer
