// Contexts: purely the program's side's; a worker knows only devices.
#pragma once

#include "interposer/context_storage.hpp"
#include "interposer/handle_table.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace vgpu::interposer {

struct stream;

/// A context. Never freed, so that a thread whose current context another
/// thread destroyed finds it out instead of crashing.
struct context {
  context(int device_ordinal, bool is_primary);
  ~context();

  CUcontext handle = nullptr;
  const int device;
  const bool primary;
  std::atomic<bool> active{false};
  std::atomic<unsigned> flags{0};
  std::atomic<std::uint64_t> id{0};
  unsigned retained = 0; ///< primary only; guarded by the contexts' mutex
  std::array<std::atomic<std::size_t>, CU_LIMIT_MAX> limits{};
  std::atomic<int> cache_config{0};
  std::atomic<int> shared_config{0};
  context_storage storage;
  /// The legacy default stream.
  std::unique_ptr<stream> legacy;

  std::uint8_t device_index() const noexcept {
    return static_cast<std::uint8_t>(device);
  }
};

/// All contexts of the process. Thread-safe.
class context_registry {
public:
  /// The device's primary context, active or not. Precondition: the device
  /// exists.
  context& primary(int device);

  /// Null when the handle names no context, or one that was destroyed.
  context* find(CUcontext handle) const noexcept;

  /// A new, active context, not current anywhere.
  context* create(int device, unsigned flags);
  /// CUDA_ERROR_INVALID_CONTEXT for a primary context.
  CUresult destroy(context& x);

  CUresult retain(context& x);
  CUresult release(context& x);
  /// Frees all that belongs to it; it is not active afterwards.
  void reset(context& x);

private:
  void activate(context& x);

  handle_table<context> table_{handle_kind::context};
  std::mutex mutex_;
  std::vector<std::unique_ptr<context>> destroyed_;
  std::array<std::atomic<context*>, 64> primaries_{};
};

context_registry& contexts();

/// The calling thread's current context; null when there is none.
context* current_context() noexcept;
/// Replaces the top of the calling thread's stack of contexts; null takes it
/// off.
void set_current_context(context* x);
void push_context(context* x);
/// Null when the stack is empty.
context* pop_context() noexcept;

/// The calling thread's own default stream in its current context; made on
/// first use.
stream& own_stream(context& x);

/// Whether work can be done in this context: its error, or CUDA_SUCCESS.
CUresult usable(const context* x) noexcept;

} // namespace vgpu::interposer
