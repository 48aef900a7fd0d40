// Values that runtimes in the program keep with a context.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

/// Holds values by key. Each runtime that is linked into the program has its
/// own key and looks its value up in every call, so get() takes no lock.
/// Thread-safe.
class context_storage {
public:
  using destructor = void (*)(CUcontext, void* key, void* value);

  context_storage() = default;
  context_storage(const context_storage&) = delete;
  context_storage& operator=(const context_storage&) = delete;
  ~context_storage();

  /// Sets the key's value. Returns false when the key is null.
  bool put(void* key, void* value, destructor at_end);
  /// Removes the key without running its destructor. Returns false when it is
  /// absent.
  bool remove(void* key);
  /// Gets the key's value. Returns false when the key is absent.
  bool get(void* key, void*& value) const noexcept;

  /// Removes all keys, then runs their destructors, which may call the driver.
  void clear(CUcontext owner);

private:
  static constexpr std::size_t block_size = 16;

  struct entry {
    std::atomic<void*> key{nullptr};
    std::atomic<void*> value{nullptr};
    destructor at_end = nullptr;
  };
  struct block {
    std::array<entry, block_size> entries;
    std::atomic<block*> next{nullptr};
  };

  entry* find(void* key) const noexcept;
  entry& free_entry();

  mutable block first_;
  std::mutex mutex_;
};

} // namespace vgpu::interposer
