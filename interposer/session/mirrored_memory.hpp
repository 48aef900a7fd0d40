// Memory of the program's own that devices use by a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vgpu::interposer {

/// Keeps bytes of the program's own memory and a copy of them in step. The copy
/// lies where devices read and write it. Each byte goes from the side that
/// changed it to the other one, so both sides may change different bytes of a
/// word. Not thread-safe.
class mirrored_memory {
public:
  /// Makes the two equal. Precondition: the copy has as many bytes, and lives
  /// as long as this object.
  mirrored_memory(std::uintptr_t own, std::span<std::byte> copy);

  /// Writes to the copy the bytes that the program changed. Does nothing where
  /// the program's memory is gone or cannot be read.
  void put();
  /// Writes to the program's memory the bytes that devices changed. The bytes
  /// that cannot be written stay as they are.
  void take();

private:
  std::uintptr_t own_;
  std::span<std::byte> copy_;
  /// The bytes that both sides have seen.
  std::vector<std::byte> known_;
  /// One part of the bytes. Threads may have too little stack for it.
  std::vector<std::byte> room_;

  template <class F>
  void each_part(const F& f);
};

} // namespace vgpu::interposer
