// A snapshot on its way to a file that may hold a former one: what is here
// already does not travel.
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

/// The head travels first, then the index; it names each piece of contents
/// with its hash and its place in the file. A piece that a former snapshot
/// left in that place stays; one that the newest snapshot has is copied from
/// there; the others are asked for, and compared with their hashes.
///
/// Nobody has to remember what was sent: another worker, whose file has other
/// places, or another client goes on with what the files hold. The file is a
/// state again when complete(), and none before. One thread.
class snapshot_inflow {
public:
  /// Where the bytes of a snapshot came from.
  struct account {
    std::uint64_t travelled = 0; // from the worker,
    std::uint64_t copied = 0;    // from the newest snapshot,
    std::uint64_t stayed = 0;    // from the file itself
  };

  /// A state of so many bytes, into a file with a former one or with anything
  /// else. `newest`: a state that nobody changes meanwhile, or none. A fault
  /// where no state is that large, or the file finds no room.
  static result<snapshot_inflow> begin(std::uint64_t bytes, unique_fd file,
                                       unique_fd newest);

  /// What to ask for now, if anything. Call until there is nothing.
  std::optional<data::state_wanted> want();
  /// Parts come in the order in which they were asked for; others are dropped.
  status take(std::uint64_t from, std::span<const std::byte> bytes);

  /// Whether work() has something to do without any part.
  bool works() const noexcept { return !copies_.empty() || is_whole(); }
  /// Copies for some milliseconds what the newest snapshot has, and completes
  /// the file after the last piece.
  status work();
  bool complete() const noexcept { return stage_ == stage::complete; }

  const account& bytes() const noexcept { return account_; }

private:
  enum class stage { head, index, contents, complete };
  /// One piece or several that lie together.
  struct part {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::vector<state_chunk> pieces{};
  };
  struct local_copy {
    std::uint64_t from = 0; // in the newest snapshot
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
  /// What the file held before, by place.
  std::map<std::uint64_t, state_chunk> former_;
  std::deque<part> parts_; // that are not here yet,
  std::size_t asked_ = 0;  // of which the first were asked for,
  std::uint64_t under_way_ = 0;
  std::deque<local_copy> copies_;
  std::vector<std::byte> room_;
  account account_;
};

} // namespace vgpu
