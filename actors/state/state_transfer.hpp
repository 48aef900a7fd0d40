// Transfers a state between two processes in parts. The receiver sets the pace.
#pragma once

#include "actors/link/data_head.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vgpu {

/// Gives the size of a part, one frame, in bytes. ZeroMQ moves frames of this
/// size well.
inline constexpr std::uint64_t state_part_bytes = std::uint64_t{2} << 20;
/// Gives the number of bytes that are requested and not received yet, plus one
/// frame at most.
inline constexpr std::uint64_t state_bytes_under_way = std::uint64_t{16} << 20;
/// Gives the largest state that is accepted, in bytes.
inline constexpr std::uint64_t largest_state = std::uint64_t{1} << 42;

/// Receives a state. Not thread-safe.
class state_inflow {
public:
  /// Makes room for so many bytes. Fails where no state is that large.
  static result<state_inflow> begin(std::uint64_t bytes);
  /// Returns the next range to request, if any. Call it until it returns
  /// nothing.
  std::optional<data::state_wanted> want();
  /// Requests again what was requested on a lost connection, where it cannot
  /// arrive any more.
  void ask_again() noexcept { asked_ = got_; }
  /// Takes a part. Parts must come in order; one that does not fit is dropped.
  status take(std::uint64_t from, std::span<const std::byte> bytes);
  /// Returns whether the whole state has arrived.
  bool complete() const noexcept { return got_ == bytes_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  int file() const noexcept { return file_.get(); }
  unique_fd release() noexcept { return std::move(file_); }

private:
  unique_fd file_;
  std::uint64_t bytes_ = 0;
  std::uint64_t asked_ = 0;
  std::uint64_t got_ = 0;
};

/// Reads the part that a receiver requests of a state's file. Returns null or
/// nothing where the range lies outside the file or exceeds a part.
std::shared_ptr<const std::vector<std::byte>>
part_of_state(int file, std::uint64_t size, const data::state_wanted& what);

} // namespace vgpu
