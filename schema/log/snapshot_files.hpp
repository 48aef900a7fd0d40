// Where a program's snapshots lie: files without a name, which the program
// makes and its client fills. They live as long as the program or a client
// holds them, so that neither's death alone loses a snapshot, and both's leaves
// nothing behind.
#pragma once

#include "schema/log/session_area.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Places 0 and 1 are in memory, 2 and 3 in a folder for what is too large:
/// while one holds the newest snapshot, the next is written to another. Not
/// thread-safe.
class state_places {
public:
  static constexpr std::size_t count = 4;

  /// Without any.
  state_places() = default;

  /// The program's side. Where the folder takes no files without a name, there
  /// are those in memory alone; none at all where there is no memory.
  static state_places create(const std::string& folder);
  /// The client's side: what came from a program, from `first` on. Fewer than
  /// two are none, and so is what is no plain file.
  static state_places take(std::vector<unique_fd>& from, std::size_t first);

  bool in_memory() const noexcept { return files_[1].get() >= 0; }
  bool on_disk() const noexcept { return files_[3].get() >= 0; }
  /// -1 where there is none.
  int at(std::size_t place) const noexcept {
    return place < count ? files_[place].get() : -1;
  }
  /// A place that is free while `taken` is not, in memory or on the disk.
  static constexpr std::size_t other(std::size_t taken, bool disk) noexcept {
    return (taken + 1) % 2 + (disk ? 2 : 0);
  }
  /// To be handed over.
  std::vector<int> descriptors() const;

private:
  std::array<unique_fd, count> files_;
};

/// VGPU_STATE_DIR, or /var/tmp.
std::string state_folder();

} // namespace vgpu
