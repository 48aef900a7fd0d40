// Contexts. Only the interposer knows them; a worker knows devices.
#pragma once

#include "interposer/context/context_storage.hpp"
#include "interposer/context/core_dump.hpp"
#include "interposer/session/handle_table.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

struct green_part;
struct stream;

/// Lets a context own its streams, whose code lies in a folder above.
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

/// Lets a thread own its streams until it ends. stream/own_stream.cpp
/// implements this interface.
class thread_streams {
public:
  thread_streams() = default;
  thread_streams(const thread_streams&) = delete;
  thread_streams& operator=(const thread_streams&) = delete;
  virtual ~thread_streams() = default;
};

/// Represents a CUcontext. It is never freed, so that a thread still finds its
/// current context after another thread destroyed it.
struct context {
  context(int device_ordinal, bool is_primary);
  /// Makes a green context. It has its own streams, and shares everything else
  /// with the primary context.
  context(context& primary_context, std::unique_ptr<green_part> part);
  ~context();

  CUcontext handle = nullptr;
  const int device;
  const bool primary;
  /// Holds the part of the device that belongs to a green context. It is null
  /// for other contexts.
  const std::unique_ptr<const green_part> green;
  /// Refers to the owner of the objects that the program makes in this context:
  /// the primary context of a green one, otherwise the context itself.
  context& root;
  std::atomic<bool> active{false};
  std::atomic<unsigned> flags{0};
  std::atomic<std::uint64_t> id{0};
  /// Counts the references to a primary context. The registry's mutex guards
  /// the count.
  unsigned retained = 0;
  /// Counts the calls of cuCtxAttach that no cuCtxDetach has undone.
  std::atomic<unsigned> attached{0};
  /// Counts the references to it that green contexts hold.
  unsigned greens = 0;
  std::array<std::atomic<std::size_t>, CU_LIMIT_MAX> limits{};
  core_dump_settings core_dump;
  std::atomic<int> cache_config{0};
  context_storage storage;
  /// Points to the legacy default stream, which `streams` owns. In a green
  /// context this is an ordinary stream, which waits for no other (as in driver
  /// 580).
  stream* legacy = nullptr;
  /// Owns all streams of the context.
  const std::unique_ptr<context_streams> streams;

  bool is_green() const noexcept { return green != nullptr; }
  std::uint8_t device_index() const noexcept {
    return static_cast<std::uint8_t>(device);
  }
};

/// The registry holds all contexts of the process. Thread-safe.
class context_registry {
public:
  /// Returns the device's primary context, active or not. Precondition: the
  /// device exists.
  context& primary(int device);

  /// Finds a context, or null when the handle names none or a destroyed one.
  context* find(CUcontext handle) const noexcept;
  /// Finds a context by its id (cuCtxGetId), or null.
  context* with_id(std::uint64_t id);

  /// Makes a new, active context, which is current in no thread.
  context* create(int device, unsigned flags);
  /// Makes a green context of this primary context. The primary context stays
  /// active as long as the green one lives.
  CUresult create_green(context& primary_context,
                        std::unique_ptr<green_part> part, context*& out);
  /// Destroys a context. Returns CUDA_ERROR_INVALID_CONTEXT for a primary
  /// context.
  CUresult destroy(context& x);

  /// Sets a limit of a context. Its device gets the largest value that a
  /// context of the program has there, unless it has that already. Returns the
  /// device's error where it refuses. Waits for the device's answer.
  CUresult set_limit(context& x, CUlimit limit, std::size_t value);

  CUresult retain(context& x);
  /// Drops a reference to a primary context. Returns CUDA_ERROR_NOT_PERMITTED
  /// where only green contexts hold references.
  CUresult release(context& x);
  CUresult reset_primary(context& x);
  /// Frees everything that belongs to the context, and makes it inactive.
  void reset(context& x);

private:
  void activate(context& x);
  void end_green(context& x);
  std::size_t largest_of_others(const context& x, CUlimit limit);
  /// Brings back the limits of a context that has ended, and those of its
  /// device where it was the last one there.
  void end_limits(context& x);

  handle_table<context> table_{handle_kind::context};
  std::mutex mutex_;
  std::vector<std::unique_ptr<context>> destroyed_;
  std::array<std::atomic<context*>, 64> primaries_{};
  std::atomic<std::uint64_t> last_id_{0};
  std::mutex limits_mutex_;
  /// Holds the limits that each device has, as far as the program has set them.
  std::map<int, std::map<CUlimit, std::size_t>> device_limits_;
};

/// Returns the process's contexts. Precondition: the driver's state is made.
context_registry& contexts() noexcept;

/// Returns the calling thread's current context, or null when there is none.
context* selected_context() noexcept;
/// Returns the context that owns the objects of the calling thread: the root of
/// the current context. Where the current context was destroyed, returns this
/// context itself, which is not usable().
context* current_context() noexcept;
/// Replaces the top of the calling thread's stack of contexts. Null removes the
/// top.
void set_current_context(context* x);
void push_context(context* x);
/// Removes the top of the calling thread's stack of contexts and returns it, or
/// null when the stack is empty.
context* pop_context() noexcept;

/// Returns the owner of the calling thread's streams, which is null until
/// stream/ sets it. The streams end with the thread.
std::unique_ptr<thread_streams>& streams_of_thread();

/// Returns the error with which work in this context fails, or CUDA_SUCCESS.
/// For a host function or callback it is CUDA_ERROR_NOT_PERMITTED.
CUresult usable(const context* x) noexcept;

} // namespace vgpu::interposer
