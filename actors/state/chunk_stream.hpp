// Reads contents of a state ahead of who restores them.
#pragma once

#include "actors/state/copying_threads.hpp"
#include "actors/state/state_file.hpp"

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu {

/// Reads and checks chunks of a state on a few threads of its own, in the order
/// in which they are wanted. Reading and checking costs as much as copying to a
/// device. One thread takes the contents.
class chunk_stream {
public:
  /// Begins to read these chunks. The reader must outlive the stream.
  chunk_stream(const state_reader& from, std::vector<state_chunk> wanted);
  /// Waits for what is being read, and drops it.
  ~chunk_stream();
  chunk_stream(const chunk_stream&) = delete;
  chunk_stream& operator=(const chunk_stream&) = delete;

  /// Returns the contents of the next chunk, once they are read, or why they
  /// cannot be. Precondition: one is left.
  result<std::shared_ptr<std::byte[]>> next();

private:
  struct contents {
    std::shared_ptr<std::byte[]> bytes;
    status outcome{};
    bool is_there = false;
  };
  /// Bounds the memory of contents that nobody has taken.
  static constexpr std::size_t most_ahead = 24;

  void run();
  bool may_read() const noexcept;

  const state_reader& from_;
  const std::vector<state_chunk> wanted_;
  std::mutex lock_; // guards what follows
  std::condition_variable changed_;
  std::vector<contents> read_;
  std::size_t begun_ = 0;
  std::size_t taken_ = 0;
  bool over_ = false;
  // This is last, because the threads use the other members.
  copying_threads threads_;
};

} // namespace vgpu
