// Receives a snapshot into a file that may hold a former one, and transfers
// only the pieces that this host does not have yet.
#pragma once

#include "actors/link/data_head.hpp"
#include "actors/state/state_file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace vgpu {

/// Receives the head first, then the index, which gives each piece of contents
/// a hash and a place in the file. A piece that the file already has in that
/// place stays. A piece that the newest snapshot has is copied from there. All
/// others are requested from the worker and compared with their hashes.
///
/// No side remembers what was sent: another worker, whose file has other
/// places, or another client continues from what the files hold. The file is a
/// state again once complete() is true. Not thread-safe.
class snapshot_inflow {
public:
  /// Describes the bytes of a snapshot, by where they came from.
  struct account {
    /// Counts the bytes from the worker.
    std::uint64_t travelled = 0;
    /// Counts the bytes from the newest snapshot.
    std::uint64_t copied = 0;
    /// Counts the bytes that the file already had.
    std::uint64_t stayed = 0;
  };

  /// Begins to receive a state of `bytes` bytes into `file`, which may hold a
  /// former state or anything else. `newest` is a state that does not change
  /// meanwhile, or -1. Fails where no state is that large, or where the disk
  /// has no room.
  static result<snapshot_inflow> begin(std::uint64_t bytes, unique_fd file,
                                       unique_fd newest);

  /// Returns the next range to request, if any. Call it until it returns
  /// nothing.
  std::optional<data::state_wanted> want();
  /// Requests again what was requested on a lost connection, where it cannot
  /// arrive any more.
  void ask_again() noexcept;
  /// Takes a part. Parts must come in the order of the requests; others are
  /// dropped.
  status take(std::uint64_t from, std::span<const std::byte> bytes);

  /// Returns whether work() has something to do without a further part.
  bool works() const noexcept { return !copies_.empty() || is_whole(); }
  /// Copies pieces from the newest snapshot for some milliseconds, and
  /// completes the file after the last piece.
  status work();
  /// Returns whether the file is a complete state again.
  bool complete() const noexcept { return stage_ == stage::complete; }

  const account& bytes() const noexcept { return account_; }
  /// Returns the size of the whole file.
  std::uint64_t size() const noexcept { return bytes_; }
  int file() const noexcept { return file_.get(); }

private:
  /// Names what arrives now.
  enum class stage { head, index, contents, complete };
  /// Describes a range to request: one piece, or several that lie together.
  struct part {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::vector<state_chunk> pieces{};
  };
  /// Holds a piece to copy from the newest snapshot.
  struct local_copy {
    /// Is the offset in the newest snapshot.
    std::uint64_t from = 0;
    state_chunk piece{};
  };

  bool is_whole() const noexcept {
    return stage_ == stage::contents && copies_.empty() && parts_.empty();
  }
  void ask(std::uint64_t from, std::uint64_t to);
  void ask(const state_chunk& piece);
  status plan();
  void give_back(const std::vector<state_chunk>& used);
  result<bool> copy(const local_copy& x);
  status store(const part& what, std::span<const std::byte> bytes);

  unique_fd file_;
  unique_fd newest_;
  std::uint64_t bytes_ = 0;
  stage stage_ = stage::head;
  state_head head_;
  /// Says what the file held before, by place.
  std::map<std::uint64_t, state_chunk> former_;
  /// Holds the parts that have not arrived yet.
  std::deque<part> parts_;
  /// Counts how many of parts_, from the first on, are requested.
  std::size_t asked_ = 0;
  std::uint64_t under_way_ = 0;
  std::deque<local_copy> copies_;
  std::vector<std::byte> room_;
  account account_;
};

} // namespace vgpu
