// The part of the driver's state that belongs to memory/.
#pragma once

#include "interposer/memory/array.hpp"
#include "interposer/memory/graph_hooks.hpp"
#include "interposer/memory/late_copies.hpp"
#include "interposer/memory/managed.hpp"
#include "interposer/memory/managed_advice.hpp"
#include "interposer/memory/managed_fault.hpp"
#include "interposer/memory/pinned_writes.hpp"
#include "interposer/memory/pool.hpp"
#include "interposer/memory/registered_memory.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/memory/synchronous_memory.hpp"
#include "interposer/memory/tensor_map.hpp"
#include "interposer/memory/texture_object.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/memory/zero_copy.hpp"
#include "interposer/session/state_part.hpp"

#include <atomic>
#include <cstdint>

namespace vgpu::interposer {

struct context_part;
struct session_part;

/// Owns all objects of memory that the program made. Allocations themselves are
/// in the session's address spaces.
struct memory_part : state_part<memory_part> {
  /// Registers the steps before a wait and at the end of a context.
  memory_part(session_part& session, context_part& contexts);

  // Memory that kernels use in place or that moves between host and device
  zero_copy_memory zero_copy;
  managed_memory managed;
  advice_map given_advice;
  synchronous_memory synchronous;
  fault_handlers faults;
  registered_memory registered;
  pinned_writes writes_under_way;
  late_copy_list late_copies;

  // Objects that the program makes from memory
  pool_table pools;
  handle_table<array> arrays{handle_kind::array};
  handle_table<mipmap> mipmaps{handle_kind::mipmap};
  /// Holds the latest id of an array, mipmapped or not.
  std::atomic<std::uint64_t> last_array{0};
  texture_table textures;
  tensor_map_cache tensor_maps;

  // Memory that the program maps by itself or shares with other processes
  virtual_memory virtual_memories;
  shared_things sharing;

  graph_memory_hooks of_graphs;
};

} // namespace vgpu::interposer
