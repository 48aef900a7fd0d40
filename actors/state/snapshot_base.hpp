// The file of a state that is kept up to date: contents have fixed places, so
// only changed contents are written again.
#pragma once

#include "actors/state/mapped_chunks.hpp"
#include "actors/state/state_file.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vgpu {

/// Assigns places in a file to pieces of at most state_chunk_bytes. Pieces of
/// exactly that size lie at multiples of it, in the order of the requests, so
/// that neighbours in memory are neighbours in the file and can be mapped
/// together. Freed places are reused. The file has no pages where nothing was
/// written.
class file_places {
public:
  /// Returns the offset of a place for so many bytes.
  std::uint64_t take(std::uint64_t bytes);
  /// Takes a place that another worker had chosen.
  void occupy(std::uint64_t offset, std::uint64_t bytes);
  /// Makes a place free again.
  void give_back(std::uint64_t offset, std::uint64_t bytes);
  /// Returns an offset behind all places.
  std::uint64_t end() const noexcept { return end_; }

private:
  static std::uint64_t rounded(std::uint64_t bytes) noexcept;

  /// Begins behind the header.
  std::uint64_t end_ = state_chunk_bytes;
  /// Holds the free places by size.
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_;
  /// Says where the next small piece goes.
  std::uint64_t small_ = 0;
  /// Says where the room for small pieces ends.
  std::uint64_t small_end_ = 0;
};

/// Knows which contents of a session's memory a state's file holds, and how old
/// they are. The file is a complete state from the moment when the index is
/// written until the next begin(). Not thread-safe.
class snapshot_base {
public:
  /// Holds one piece of contents and its age.
  struct piece {
    /// Holds the place, and the contents that were written there last.
    state_chunk chunk{};
    /// Is the first mark after the copy, or 0 where nothing was copied.
    std::uint64_t mark = 0;
  };
  using range = std::pair<device_address, std::uint32_t>;

  /// Takes a file that holds nothing of use.
  explicit snapshot_base(unique_fd file) : file_(std::move(file)) {}

  /// Returns whether this base belongs to this file.
  bool is_of(int file) const;
  /// Returns whether the file still has all its bytes. A reader that does not
  /// want the file to be updated truncates it.
  bool is_whole() const;
  int file() const noexcept { return file_.get(); }
  mapped_chunks& mapped() const noexcept { return *mapped_; }

  /// Says for contents in a file since which mark the session's memory may
  /// differ from them; 0: it differs. Returns nothing where they are no piece.
  using mark_of_piece =
      std::function<std::optional<std::uint64_t>(const state_chunk&)>;
  /// Takes over a state that another worker wrote into the file.
  void take_over(const state_index& former, const mark_of_piece& mark_of);
  /// Marks the file as incomplete, until an index is written again.
  status begin() const;

  /// Keeps exactly these ranges, ordered by address. A range that is new or has
  /// another size has no contents yet.
  void keep(const std::vector<range>& ranges);
  /// Returns the pieces by their addresses.
  std::map<device_address, piece>& pieces() noexcept { return pieces_; }
  /// Records the contents that were written for a range, even if the range is
  /// not kept any more.
  void note(const state_chunk& what, std::uint64_t mark);

  /// Returns the images in the file. An image never changes.
  std::map<call::digest, state_image>& images() noexcept { return images_; }
  /// Returns the offset of a new place for so many bytes.
  std::uint64_t place(std::uint64_t bytes) { return places_.take(bytes); }

  /// Returns where the rest of a state can be written.
  std::uint64_t end() const noexcept { return places_.end(); }

private:
  unique_fd file_;
  std::unique_ptr<mapped_chunks> mapped_ =
      std::make_unique<mapped_chunks>(file_.get());
  file_places places_;
  std::map<device_address, piece> pieces_;
  std::map<call::digest, state_image> images_;
};

} // namespace vgpu
