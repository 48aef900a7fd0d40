#include "interposer/context/context_storage.hpp"

namespace vgpu::interposer {

context_storage::~context_storage() {
  for (auto* b = first_.next.load(); b != nullptr;) {
    std::unique_ptr<block> gone{b};
    b = gone->next.load();
  }
}

context_storage::entry* context_storage::find(void* key) const noexcept {
  for (auto* b = &first_; b != nullptr;
       b = b->next.load(std::memory_order_acquire))
    for (auto& e : b->entries)
      if (e.key.load(std::memory_order_acquire) == key)
        return &e;
  return nullptr;
}

context_storage::entry& context_storage::free_entry() {
  if (auto* e = find(nullptr); e != nullptr)
    return *e;
  auto* last = &first_;
  while (auto* next = last->next.load())
    last = next;
  auto fresh = std::make_unique<block>();
  auto& e = fresh->entries.front();
  last->next.store(fresh.release(), std::memory_order_release);
  return e;
}

bool context_storage::put(void* key, void* value, destructor at_end) {
  if (key == nullptr)
    return false;
  std::lock_guard guard{mutex_};
  auto* e = find(key);
  auto& into = e != nullptr ? *e : free_entry();
  into.at_end = at_end;
  into.value.store(value, std::memory_order_relaxed);
  into.key.store(key, std::memory_order_release);
  return true;
}

bool context_storage::remove(void* key) {
  if (key == nullptr)
    return false;
  std::lock_guard guard{mutex_};
  auto* e = find(key);
  if (e == nullptr)
    return false;
  e->key.store(nullptr, std::memory_order_release);
  return true;
}

bool context_storage::get(void* key, void*& value) const noexcept {
  if (key == nullptr)
    return false;
  auto* e = find(key);
  if (e == nullptr)
    return false;
  value = e->value.load(std::memory_order_relaxed);
  return true;
}

void context_storage::clear(CUcontext owner) {
  struct kept {
    void* key;
    void* value;
    destructor at_end;
  };
  std::vector<kept> gone;
  {
    std::lock_guard guard{mutex_};
    for (auto* b = &first_; b != nullptr; b = b->next.load())
      for (auto& e : b->entries)
        if (auto* key = e.key.exchange(nullptr); key != nullptr)
          gone.push_back({key, e.value.load(), e.at_end});
  }
  for (auto& x : gone)
    if (x.at_end != nullptr)
      x.at_end(owner, x.key, x.value);
}

} // namespace vgpu::interposer
