// What context/ has of the driver's state.
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

/// The folders that something of a context belongs to, in the order in which
/// its end comes to them (context_registry::reset).
enum class context_end : std::uint8_t {
  launches, ///< what conditions of graphs have yet to choose; while it is
            ///< active
  code,     ///< modules
  memory,   ///< textures, arrays and all allocations; behind the streams
};

/// All contexts, and what other folders add to a context's life.
///
///   context begins ──► make_streams
///   context ends ────► launches ─► (inactive) ─► code ─► streams ─► memory
struct context_part : state_part<context_part> {
  /// What a folder does when a context ends: it frees what belongs to it there.
  using end_step = void (*)(context& of);

  context_registry contexts;
  handle_table<sm_part> resource_descriptors{handle_kind::resource_descriptor};
  peer_list peers;
  /// The latest call that cut a device (sm_part::split).
  std::atomic<std::uint64_t> last_split{0};

  /// Makes what a new context has of streams. Registered by stream/.
  std::unique_ptr<context_streams> (*make_streams)(context& of) = nullptr;

  /// Registers what is done when a context ends. Precondition: no other thread
  /// knows the state yet.
  void at_end(context_end when, end_step what) noexcept {
    end_steps_[static_cast<std::size_t>(when)] = what;
  }
  /// Does what was registered for this.
  void end(context_end which, context& of) const {
    end_steps_[static_cast<std::size_t>(which)](of);
  }

private:
  std::array<end_step, 3> end_steps_{};
};

} // namespace vgpu::interposer
