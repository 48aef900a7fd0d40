// The places of a state's file as memory.
#pragma once

#include "actors/state/state_file.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace vgpu {

/// Maps whole chunks of a state's file. The kernel lets one thread at a time
/// write to a file, but all threads to its pages. Whoever truncates the file
/// while a chunk is written ends this process. Thread-safe.
class mapped_chunks {
public:
  /// The file must outlive the object.
  explicit mapped_chunks(int file) : file_(file) {}
  ~mapped_chunks();
  mapped_chunks(const mapped_chunks&) = delete;
  mapped_chunks& operator=(const mapped_chunks&) = delete;

  /// Returns the memory of a chunk, or nothing where it cannot be mapped, as
  /// behind the end of the file.
  std::span<std::byte> at(const state_chunk& x);

private:
  /// So many bytes are mapped at a time.
  static constexpr std::uint64_t segment_bytes = 32 * state_chunk_bytes;

  std::byte* segment(std::uint64_t index);

  int file_;
  std::mutex mutex_;
  /// Holds the segments that are mapped; null: one could not be.
  std::map<std::uint64_t, std::byte*> segments_;
};

} // namespace vgpu
