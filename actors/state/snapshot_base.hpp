// A state's file that is kept up: contents have their places in it, so that
// only what changed is written again.
#pragma once

#include "actors/state/state_file.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace vgpu {

/// Places in a file, for pieces of at most state_chunk_bytes. Those of that
/// size lie at multiples of it, in the order in which they were asked for, so
/// that neighbours in memory are neighbours in the file and can be mapped
/// together. What is given back is used again; the file has no pages where
/// nothing was written.
class file_places {
public:
  std::uint64_t take(std::uint64_t bytes);
  void give_back(std::uint64_t offset, std::uint64_t bytes);
  /// All places lie before.
  std::uint64_t end() const noexcept { return end_; }

private:
  static std::uint64_t rounded(std::uint64_t bytes) noexcept;

  std::uint64_t end_ = state_chunk_bytes; // the header is before
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_; // by size
  std::uint64_t small_ = 0; // where the next small one goes,
  std::uint64_t small_end_ = 0;
};

/// What one state's file holds of a session's memory, and how new that is. The
/// file holds a whole state between finish(), by whoever writes the index, and
/// the next begin(). One thread.
class snapshot_base {
public:
  struct piece {
    state_chunk chunk{};    // its place, and what was written there last
    std::uint64_t mark = 0; // before which it was copied; 0: it was not
  };
  using range = std::pair<device_address, std::uint32_t>;

  /// The file holds nothing of use.
  explicit snapshot_base(unique_fd file) : file_(std::move(file)) {}

  /// Whether it is of this file.
  bool is_of(int file) const;
  /// Whether the file still has all its bytes: whoever does not want them kept
  /// up cuts it.
  bool is_whole() const;
  int file() const noexcept { return file_.get(); }

  /// From now on the file is no state, until it is finished again.
  status begin() const;

  /// Keeps these ranges, ordered by address, and none else: those that are new,
  /// or were of another size, have no contents yet.
  void keep(const std::vector<range>& ranges);
  std::map<device_address, piece>& pieces() noexcept { return pieces_; }
  /// What was written for a range that is perhaps not kept any more.
  void note(const state_chunk& what, std::uint64_t mark);

  /// Images never change.
  std::map<call::digest, state_image>& images() noexcept { return images_; }
  std::uint64_t place(std::uint64_t bytes) { return places_.take(bytes); }

  /// Where the rest of a state can be written.
  std::uint64_t end() const noexcept { return places_.end(); }

private:
  unique_fd file_;
  file_places places_;
  std::map<device_address, piece> pieces_;
  std::map<call::digest, state_image> images_;
};

} // namespace vgpu
