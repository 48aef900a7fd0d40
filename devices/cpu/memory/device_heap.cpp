#include "devices/cpu/memory/device_heap.hpp"

namespace vgpu::device::cpu {

namespace {

constexpr std::uint64_t unused = 0x7667'7075'6672'6565; // arbitrary
constexpr std::uint64_t taken = 0x7667'7075'7461'6b65;

} // namespace

heap::header* heap::at(std::uint64_t offset) const {
  return reinterpret_cast<header*>(base_ + offset);
}

bool heap::valid(std::uint64_t offset) const {
  if (offset % 16 != 0 || offset + sizeof(header) > bytes_)
    return false;
  // Kernels may be writing there, so each word is read only once.
  auto x = at(offset);
  auto size = __atomic_load_n(&x->bytes, __ATOMIC_RELAXED);
  auto state = __atomic_load_n(&x->state, __ATOMIC_RELAXED);
  return (state == unused || state == taken) && size % 16 == 0 &&
         size >= sizeof(header) && size <= bytes_ - offset;
}

void heap::place(device_address base, std::uint64_t bytes) {
  auto lock = std::lock_guard{mutex_};
  base_ = base;
  bytes_ = bytes;
  next_ = 0;
  if (!valid(0))
    *at(0) = {bytes, unused};
}

void heap::leave() {
  auto lock = std::lock_guard{mutex_};
  base_ = bytes_ = next_ = 0;
  allocated_ = false;
}

bool heap::untouched() {
  auto lock = std::lock_guard{mutex_};
  return base_ == 0 || (!allocated_ && valid(0) && at(0)->state == unused &&
                        at(0)->bytes == bytes_);
}

device_address heap::allocate(std::uint64_t bytes) {
  auto lock = std::lock_guard{mutex_};
  if (base_ == 0 || bytes == 0 || bytes > bytes_)
    return 0;
  auto wanted = (bytes + 15) / 16 * 16 + sizeof(header);
  // The search visits all blocks once, and starts where the last one ended.
  auto start = valid(next_) ? next_ : 0;
  auto offset = start;
  for (auto wrapped = false; !(wrapped && offset >= start);) {
    if (offset >= bytes_) {
      if (wrapped)
        break;
      wrapped = true;
      offset = 0;
      if (start == 0)
        break;
      continue;
    }
    if (!valid(offset))
      return 0;
    auto x = at(offset);
    auto size = x->bytes;
    if (x->state == unused) {
      while (offset + size < bytes_ && valid(offset + size) &&
             at(offset + size)->state == unused)
        size += at(offset + size)->bytes;
      if (size > bytes_ - offset)
        return 0;
      x->bytes = size;
      // The next search must not begin inside a merged block.
      if (next_ > offset && next_ < offset + size)
        next_ = offset;
      if (size >= wanted) {
        if (size - wanted >= 2 * sizeof(header)) {
          *at(offset + wanted) = {size - wanted, unused};
          x->bytes = wanted;
        }
        x->state = taken;
        allocated_ = true;
        next_ = offset + x->bytes;
        return base_ + offset + sizeof(header);
      }
    }
    offset += size;
  }
  return 0;
}

bool heap::release(device_address address) {
  auto lock = std::lock_guard{mutex_};
  auto offset = address - base_ - sizeof(header);
  if (base_ == 0 || address < base_ + sizeof(header) || offset >= bytes_ ||
      !valid(offset) || at(offset)->state != taken)
    return false;
  at(offset)->state = unused;
  next_ = offset < next_ ? offset : next_;
  return true;
}

} // namespace vgpu::device::cpu
