// The size of the file to which a daemon's log goes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace vgpu {

/// Keeps a file that processes append to from growing without end. At a size,
/// its contents become those of FILE.1, and it begins anew. A worker in its
/// sandbox may make no file, and drops the contents at twice that size: mostly
/// its node was there before. Thread-safe.
class log_file {
public:
  static constexpr std::uint64_t most_bytes = std::uint64_t{16} << 20;
  /// Gives the number of lines after which look() looks.
  static constexpr std::uint32_t lines_at_once = 64;

  /// Bounds the file at `path`, if the descriptor appends to it. Otherwise, and
  /// for a null path, it bounds nothing: who redirects stderr owns the file.
  log_file(int fd, const char* path, std::uint64_t most = most_bytes);

  /// Call it after each line.
  void look();
  bool is_bounded() const noexcept { return !path_.empty(); }

private:
  bool keep_contents() const;

  int fd_;
  std::string path_;
  std::uint64_t most_;
  std::atomic<std::uint32_t> lines_ = 0;
  std::mutex lock_;
};

} // namespace vgpu
