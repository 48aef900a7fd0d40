// A state on its way between two processes, part by part, at the pace of who
// receives it.
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

/// One frame: of a size that ZeroMQ moves well.
inline constexpr std::uint64_t state_part_bytes = std::uint64_t{2} << 20;
/// Asked for and not here yet, at most, and one frame.
inline constexpr std::uint64_t state_bytes_under_way = std::uint64_t{16} << 20;
inline constexpr std::uint64_t largest_state = std::uint64_t{1} << 42;

/// A state that arrives. One thread.
class state_inflow {
public:
  /// Makes room for so many bytes; a fault where no state is that large.
  static result<state_inflow> begin(std::uint64_t bytes);
  /// What to ask for now, if anything. Call until there is nothing.
  std::optional<data::state_wanted> want();
  /// What was asked for on a connection that is gone does not come.
  void ask_again() noexcept { asked_ = got_; }
  /// Parts come in order; what does not fit in is dropped.
  status take(std::uint64_t from, std::span<const std::byte> bytes);
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

/// The bytes that somebody wants of a state's file; empty where the range is
/// none of it or larger than anybody asks for.
std::shared_ptr<const std::vector<std::byte>>
part_of_state(int file, std::uint64_t size, const data::state_wanted& what);

} // namespace vgpu
