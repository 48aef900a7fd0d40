#include "interposer/context/context.hpp"

#include "interposer/context/context_limits.hpp"
#include "interposer/context/context_part.hpp"
#include "interposer/context/green_context.hpp"
#include "interposer/session/own_thread.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <utility>
#include <vector>

#include <pthread.h>

namespace vgpu::interposer {

namespace {

/// Holds the state of a thread besides its current context.
struct thread_state {
  std::vector<context*> stack;
  std::unique_ptr<thread_streams> streams;
};

// With this model a look-up is one instruction. The two words come from the
// surplus that the loader keeps for libraries like this one.
#define VGPU_STATIC_TLS __attribute__((tls_model("initial-exec")))
thread_local context* current VGPU_STATIC_TLS = nullptr;
thread_local thread_state* rest_of_state VGPU_STATIC_TLS = nullptr;

/// Returns the key whose destructor cleans up a thread's state. The destructor
/// of a thread_local would run on the main thread before the program's atexit
/// handlers, which may still call the driver.
pthread_key_t cleanup_key() {
  static auto key = [] {
    pthread_key_t made{};
    ::pthread_key_create(&made, [](void* x) {
      rest_of_state = nullptr;
      try {
        delete static_cast<thread_state*>(x);
      } catch (const std::exception& e) {
        report_exception(e.what());
      }
    });
    return made;
  }();
  return key;
}

/// Gives a context the settings with which each context begins.
void begin_settings(context& x) noexcept {
  x.cache_config = CU_FUNC_CACHE_PREFER_NONE;
  x.attached = 0;
}

thread_state& this_thread() {
  if (rest_of_state == nullptr) {
    rest_of_state = new thread_state;
    ::pthread_setspecific(cleanup_key(), rest_of_state);
  }
  return *rest_of_state;
}

} // namespace

context::context(int device_ordinal, bool is_primary)
    : device(device_ordinal), primary(is_primary), root(*this),
      streams(context_part::get().make_streams(*this)) {
  streams->begin();
  begin_limits(*this);
}

context::context(context& primary_context, std::unique_ptr<green_part> part)
    : device(primary_context.device), primary(false), green(std::move(part)),
      root(primary_context), streams(context_part::get().make_streams(*this)) {
  streams->begin();
}

context::~context() = default;

// -- registry
// ------------------------------------------------------------------

context& context_registry::primary(int device) {
  auto& place = primaries_.at(static_cast<std::size_t>(device));
  if (auto* known = place.load(std::memory_order_acquire); known != nullptr)
    return *known;
  std::lock_guard guard{mutex_};
  if (auto* known = place.load(); known != nullptr)
    return *known;
  auto made = std::make_unique<context>(device, true);
  auto* x = made.get();
  x->handle = to_handle<CUcontext>(table_.add(std::move(made)));
  place.store(x, std::memory_order_release);
  return *x;
}

context* context_registry::find(CUcontext handle) const noexcept {
  return table_.find(handle);
}

context* context_registry::with_id(std::uint64_t id) {
  context* out = nullptr;
  table_.each([&](std::uint64_t, context& x) {
    if (x.active.load() && x.id.load() == id)
      out = &x;
  });
  return out;
}

void context_registry::activate(context& x) {
  x.core_dump.begin_as(context_part::get().core_dump, x.flags.load());
  x.id.store(last_id_.fetch_add(1) + 1);
  x.active.store(true, std::memory_order_release);
}

context* context_registry::create(int device, unsigned flags) {
  auto made = std::make_unique<context>(device, false);
  auto* x = made.get();
  x->flags = flags;
  x->handle = to_handle<CUcontext>(table_.add(std::move(made)));
  activate(*x);
  return x;
}

CUresult context_registry::create_green(context& primary_context,
                                        std::unique_ptr<green_part> part,
                                        context*& out) {
  if (auto code = retain(primary_context); code != CUDA_SUCCESS)
    return code;
  auto made = std::make_unique<context>(primary_context, std::move(part));
  out = made.get();
  out->handle = to_handle<CUcontext>(table_.add(std::move(made)));
  activate(*out);
  std::lock_guard guard{mutex_};
  ++primary_context.greens;
  return CUDA_SUCCESS;
}

void context_registry::end_green(context& x) {
  if (!x.active.exchange(false))
    return;
  x.streams->end();
  std::lock_guard guard{mutex_};
  --x.root.greens;
}

CUresult context_registry::destroy(context& x) {
  if (x.primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (x.is_green())
    end_green(x);
  else
    reset(x);
  auto gone = table_.remove(x.handle);
  {
    std::lock_guard guard{mutex_};
    destroyed_.push_back(std::move(gone));
  }
  return x.is_green() ? release(x.root) : CUDA_SUCCESS;
}

CUresult context_registry::retain(context& x) {
  std::lock_guard guard{mutex_};
  if (!x.active.load()) {
    // A process whose session failed gets no context any more, reset or not.
    if (auto code = process::the_session().sticky(); code != CUDA_SUCCESS)
      return code;
    activate(x);
  }
  ++x.retained;
  return CUDA_SUCCESS;
}

CUresult context_registry::release(context& x) {
  {
    std::lock_guard guard{mutex_};
    if (x.retained <= x.greens)
      return x.greens != 0 ? CUDA_ERROR_NOT_PERMITTED
                           : CUDA_ERROR_INVALID_CONTEXT;
    if (--x.retained != 0)
      return CUDA_SUCCESS;
  }
  reset(x);
  return CUDA_SUCCESS;
}

CUresult context_registry::reset_primary(context& x) {
  {
    std::lock_guard guard{mutex_};
    if (x.greens != 0)
      return CUDA_ERROR_NOT_PERMITTED;
  }
  reset(x);
  return CUDA_SUCCESS;
}

void context_registry::reset(context& x) {
  const auto& part = context_part::get();
  if (x.active.load())
    part.end(context_end::launches, x);
  // Flags end with the context, even those of one that was never active.
  if (x.primary)
    x.flags = 0;
  if (!x.active.exchange(false))
    return;
  x.storage.clear(x.handle);
  part.end(context_end::code, x);
  x.streams->end();
  part.end(context_end::memory, x);
  end_limits(x);
  begin_settings(x);
}

context_registry& contexts() noexcept {
  return context_part::get().contexts;
}

// -- the calling thread
// --------------------------------------------------------

context* selected_context() noexcept {
  return current;
}

context* current_context() noexcept {
  auto* x = current;
  if (x == nullptr || !x->active.load(std::memory_order_acquire))
    return x;
  return &x->root;
}

void set_current_context(context* x) {
  auto& stack = this_thread().stack;
  if (!stack.empty())
    stack.pop_back();
  if (x != nullptr)
    stack.push_back(x);
  current = stack.empty() ? nullptr : stack.back();
}

void push_context(context* x) {
  this_thread().stack.push_back(x);
  current = x;
}

context* pop_context() noexcept {
  auto* gone = current;
  if (gone == nullptr)
    return nullptr;
  auto& stack = rest_of_state->stack;
  stack.pop_back();
  current = stack.empty() ? nullptr : stack.back();
  return gone;
}

std::unique_ptr<thread_streams>& streams_of_thread() {
  return this_thread().streams;
}

CUresult usable(const context* x) noexcept {
  // A wait there would never end, because its own stream waits for the
  // function. libgomp frees memory in callbacks, and defers that when it gets
  // this code.
  if (runs_host_functions()) [[unlikely]]
    return CUDA_ERROR_NOT_PERMITTED;
  if (x == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!x->active.load(std::memory_order_acquire))
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return process::the_session().sticky();
}

} // namespace vgpu::interposer
