// Contexts: purely the program's side's; a worker knows only devices.
#pragma once

#include "interposer/context/context_storage.hpp"
#include "interposer/session/handle_table.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace vgpu::interposer {

struct green_part;
struct stream;

/// A context owns its streams by this interface, as streams lie above it;
/// stream_set (stream/stream_set.hpp) implements it.
class context_streams {
public:
  context_streams() = default;
  context_streams(const context_streams&) = delete;
  context_streams& operator=(const context_streams&) = delete;
  virtual ~context_streams() = default;

  /// Makes the context's default stream, and sets context::legacy.
  virtual void begin() = 0;
  /// Retires all streams and events, as the context ends.
  virtual void end() = 0;
};

/// A thread owns its streams by this interface until it ends;
/// stream/own_stream.cpp implements it.
class thread_streams {
public:
  thread_streams() = default;
  thread_streams(const thread_streams&) = delete;
  thread_streams& operator=(const thread_streams&) = delete;
  virtual ~thread_streams() = default;
};

/// A context. Never freed, so that a thread whose current context another
/// thread destroyed finds it out instead of crashing.
struct context {
  context(int device_ordinal, bool is_primary);
  /// A green one: all but its streams is the primary's.
  context(context& primary_context, std::unique_ptr<green_part> part);
  ~context();

  CUcontext handle = nullptr;
  const int device;
  const bool primary;
  /// Of a green one what it was given; else null.
  const std::unique_ptr<const green_part> green;
  /// Where what is made in it belongs: itself, or the primary context of a
  /// green one.
  context& root;
  std::atomic<bool> active{false};
  std::atomic<unsigned> flags{0};
  std::atomic<std::uint64_t> id{0};
  unsigned retained = 0; ///< primary only; guarded by the contexts' mutex
  unsigned greens = 0;   ///< how many of those are its green contexts
  std::array<std::atomic<std::size_t>, CU_LIMIT_MAX> limits{};
  std::atomic<int> cache_config{0};
  std::atomic<int> shared_config{0};
  context_storage storage;
  /// The legacy default stream; of a green context a stream like others, which
  /// waits for none (as driver 580 has it). It belongs to `streams`.
  stream* legacy = nullptr;
  /// All of the context's streams belong to this.
  const std::unique_ptr<context_streams> streams;

  bool is_green() const noexcept { return green != nullptr; }
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
  /// A green context of this primary one, which it keeps active.
  CUresult create_green(context& primary_context,
                        std::unique_ptr<green_part> part, context*& out);
  /// CUDA_ERROR_INVALID_CONTEXT for a primary context.
  CUresult destroy(context& x);

  CUresult retain(context& x);
  /// CUDA_ERROR_NOT_PERMITTED where green contexts alone retain it, and for a
  /// reset while there are some.
  CUresult release(context& x);
  CUresult reset_primary(context& x);
  /// Frees all that belongs to it; it is not active afterwards.
  void reset(context& x);

private:
  void activate(context& x);
  void end_green(context& x);

  handle_table<context> table_{handle_kind::context};
  std::mutex mutex_;
  std::vector<std::unique_ptr<context>> destroyed_;
  std::array<std::atomic<context*>, 64> primaries_{};
  std::atomic<std::uint64_t> last_id_{0};
};

/// Gives the process's contexts. Precondition: the driver's state is made.
context_registry& contexts() noexcept;

/// The calling thread's current context; null when there is none.
context* selected_context() noexcept;
/// Where what it makes belongs: its root, or itself where it was destroyed, so
/// that it is not usable().
context* current_context() noexcept;
/// Replaces the top of the calling thread's stack of contexts; null takes it
/// off.
void set_current_context(context* x);
void push_context(context* x);
/// Null when the stack is empty.
context* pop_context() noexcept;

/// Gives the place for the streams of the calling thread; null until somebody
/// puts some there. They go with the thread.
std::unique_ptr<thread_streams>& streams_of_thread();

/// Whether work can be done in this context: its error, or CUDA_SUCCESS. Of
/// none, CUDA_ERROR_NOT_PERMITTED in a host function or callback.
CUresult usable(const context* x) noexcept;

} // namespace vgpu::interposer
