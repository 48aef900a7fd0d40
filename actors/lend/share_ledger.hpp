// Who counts memory that the workers of several sessions have at once.
//
//   lender                                    those who have it
//     │ holds all of "counts" while it lives    │ each holds "has" of its entry
//     ▼                                         ▼
//   ═══════════ one file of locks, which the kernel keeps ═══════════
//                                               │ the lender is gone: the first
//                                               ▼ that takes "counts" has it
//
// Locks end with the last descriptor of who took them, however that one ends:
// nobody has to be told, and nothing is counted by the dead.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <utility>

namespace vgpu {

/// The lender's. It counts what is entered for as long as this is there, also
/// what it has let go itself. Thread-safe.
class share_ledger {
public:
  static result<share_ledger> open();

  /// For one more who gets the thing: until this descriptor is closed, in
  /// whatever process it is by then, that one has it.
  result<unique_fd> enter(std::uint64_t entry) const;
  /// Whether anybody has it who was entered.
  bool is_had(std::uint64_t entry) const noexcept;

private:
  explicit share_ledger(unique_fd file) : file_(std::move(file)) {}

  unique_fd file_;
};

/// Of one who has the thing, until it ends.
class share_stake {
public:
  share_stake(unique_fd entered, std::uint64_t entry) noexcept
      : file_(std::move(entered)), entry_(entry) {}

  /// Whether the thing counts here: its lender is gone, and nobody else who has
  /// it took it over. From the first time on it does.
  bool take_over() noexcept;

private:
  unique_fd file_;
  std::uint64_t entry_;
};

} // namespace vgpu
