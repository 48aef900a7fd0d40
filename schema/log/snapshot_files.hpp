// The files of a program's snapshots. They have no names; the program makes
// them, and its client fills them. They live as long as the program or a client
// holds them, so the death of one of them loses no snapshot, and the end of
// both leaves nothing behind.
#pragma once

#include "schema/log/session_area.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Holds the places for snapshots: 0 and 1 are in memory, 2 and 3 in a folder
/// for snapshots that are too large for memory. While one holds the newest
/// snapshot, the next is written to another. Not thread-safe.
class state_places {
public:
  static constexpr std::size_t count = 4;

  /// Makes an object without places.
  state_places() = default;

  /// Makes the places, on the program's side. Where the folder does not support
  /// files without names, there are only those in memory. Where there is no
  /// memory, there are none.
  static state_places create(const std::string& folder);
  /// Takes the places that a program sent, on the client's side, from `first`
  /// on. Fewer than two places count as none, and so does anything but plain
  /// files.
  static state_places take(std::vector<unique_fd>& from, std::size_t first);

  bool in_memory() const noexcept { return files_[1].get() >= 0; }
  bool on_disk() const noexcept { return files_[3].get() >= 0; }
  /// Returns the file of a place, or -1 where there is none.
  int at(std::size_t place) const noexcept {
    return place < count ? files_[place].get() : -1;
  }
  /// Returns a place that is free while `taken` is not, in memory or on the
  /// disk.
  static constexpr std::size_t other(std::size_t taken, bool disk) noexcept {
    return (taken + 1) % 2 + (disk ? 2 : 0);
  }
  /// Returns the descriptors to pass to the client.
  std::vector<int> descriptors() const;

private:
  std::array<unique_fd, count> files_;
};

/// Returns VGPU_STATE_DIR, or /var/tmp.
std::string state_folder();

} // namespace vgpu
