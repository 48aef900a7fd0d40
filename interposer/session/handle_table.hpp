// Handles that the program holds, and the objects that they refer to.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>

namespace vgpu::interposer {

/// Names the kind of object that a handle refers to. Each handle contains it,
/// so a handle of another kind never finds an object.
enum class handle_kind : std::uint8_t {
  context = 1,
  stream,
  event,
  module,
  library,
  function,
  kernel,
  pool,
  graph,
  graph_node,
  graph_exec,
  user_object,
  array,
  mipmap,
  resource_descriptor,
  notification,
};

/// Finds objects by opaque handles. A handle looks like a pointer of user
/// space, but is never dereferenced. It holds the kind, a slot and the slot's
/// generation, so the table recognises handles that were destroyed or never
/// existed.
///
/// Thread-safe; find() takes no lock. A found object stays valid until it is
/// removed. A program that destroys an object while another thread uses it
/// breaks CUDA's own rules.
template <class T>
class handle_table {
public:
  explicit handle_table(handle_kind kind)
      : tag_(static_cast<std::uint64_t>(kind) << kind_shift) {}

  handle_table(const handle_table&) = delete;
  handle_table& operator=(const handle_table&) = delete;

  ~handle_table() {
    each([](std::uint64_t, T& object) { delete &object; });
    for (auto& chunk : chunks_)
      delete[] chunk.load();
  }

  /// Adds an object and returns its handle, which is never 0. Throws
  /// std::bad_alloc when the table is full.
  std::uint64_t add(std::unique_ptr<T> object) {
    std::lock_guard guard{mutex_};
    auto index = take_index();
    auto& s = *slot_at(index);
    auto handle =
        tag_ | (s.generation << generation_shift) | (index << index_shift);
    s.object.store(object.release(), std::memory_order_relaxed);
    s.handle.store(handle, std::memory_order_release);
    return handle;
  }

  /// Finds the object, or null when the handle names none.
  T* find(std::uint64_t handle) const noexcept {
    auto* s = slot_of(handle);
    if (s == nullptr || s->handle.load(std::memory_order_acquire) != handle)
      return nullptr;
    return s->object.load(std::memory_order_relaxed);
  }
  T* find(const void* handle) const noexcept {
    return find(reinterpret_cast<std::uintptr_t>(handle));
  }

  /// Removes and returns the object, or null when the handle names none.
  std::unique_ptr<T> remove(std::uint64_t handle) {
    std::lock_guard guard{mutex_};
    auto* s = slot_of(handle);
    if (s == nullptr || s->handle.load(std::memory_order_relaxed) != handle)
      return nullptr;
    s->handle.store(0, std::memory_order_relaxed);
    s->generation = (s->generation + 1) & generation_mask;
    free_.push_back((handle >> index_shift) & index_mask);
    return std::unique_ptr<T>{s->object.load(std::memory_order_relaxed)};
  }
  std::unique_ptr<T> remove(const void* handle) {
    return remove(reinterpret_cast<std::uintptr_t>(handle));
  }

  /// Calls `f(handle, object)` for each object in the table.
  template <class F>
  void each(F f) {
    for (std::uint64_t i = 0; i < used_.load(std::memory_order_acquire); ++i) {
      auto& s = *slot_at(i);
      if (auto handle = s.handle.load(std::memory_order_acquire); handle != 0)
        f(handle, *s.object.load(std::memory_order_relaxed));
    }
  }

private:
  static constexpr std::uint64_t index_shift = 4;
  static constexpr std::uint64_t index_bits = 22;
  static constexpr std::uint64_t index_mask = (1U << index_bits) - 1;
  static constexpr std::uint64_t generation_shift = index_shift + index_bits;
  static constexpr std::uint64_t generation_mask = (1U << 17) - 1;
  static constexpr std::uint64_t kind_shift = generation_shift + 17;
  static constexpr std::uint64_t max_slots = index_mask + 1;
  static constexpr std::uint64_t chunk_slots = 1024;
  static constexpr std::uint64_t known_bits =
      (std::uint64_t{1} << kind_shift) - (1U << index_shift);

  struct slot {
    std::atomic<std::uint64_t> handle{0};
    std::atomic<T*> object{nullptr};
    std::uint64_t generation = 1;
  };

  slot* slot_at(std::uint64_t index) const noexcept {
    auto* chunk = chunks_[index / chunk_slots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % chunk_slots;
  }

  slot* slot_of(std::uint64_t handle) const noexcept {
    if ((handle & ~known_bits) != tag_)
      return nullptr;
    return slot_at((handle >> index_shift) & index_mask);
  }

  // Takes the oldest free slot first, so that a stale handle stays detectable
  // for as long as possible.
  std::uint64_t take_index() {
    if (free_.size() > 64) {
      auto index = free_.front();
      free_.pop_front();
      return index;
    }
    auto index = used_.load(std::memory_order_relaxed);
    if (index >= max_slots)
      throw std::bad_alloc{};
    if (index % chunk_slots == 0)
      chunks_[index / chunk_slots].store(new slot[chunk_slots],
                                         std::memory_order_release);
    used_.store(index + 1, std::memory_order_release);
    return index;
  }

  const std::uint64_t tag_;
  std::array<std::atomic<slot*>, max_slots / chunk_slots> chunks_{};
  std::atomic<std::uint64_t> used_{0};
  std::mutex mutex_;
  std::deque<std::uint64_t> free_;
};

/// Converts a handle to the driver API's opaque pointer type.
template <class Handle>
Handle to_handle(std::uint64_t value) noexcept {
  return reinterpret_cast<Handle>(value); // NOLINT: opaque, never followed
}

} // namespace vgpu::interposer
