// Which worker counts the memory that several sessions share.
//
//   lender                                    borrowers
//     │ locks all of "counts" while it lives    │ each locks "has" of its entry
//     ▼                                         ▼
//   ═══════════ one file of locks, which the kernel keeps ═══════════
//                                               │ the lender is gone: the first
//                                               ▼ to lock "counts" counts it
//
// A lock ends with the last descriptor of its owner, however the owner ends. So
// no process has to report anything, and no dead process counts anything.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <utility>

namespace vgpu {

/// A share_ledger is the lender's side. The lender counts each entry for as
/// long as its ledger exists, even after it released the memory itself.
/// Thread-safe.
class share_ledger {
public:
  /// Makes the file of locks. Fails when the kernel provides none.
  static result<share_ledger> open();

  /// Enters one more borrower. The borrower has the object until this
  /// descriptor is closed, in whatever process it is by then.
  result<unique_fd> enter(std::uint64_t entry) const;
  /// Returns whether any borrower of this entry is left.
  bool is_had(std::uint64_t entry) const noexcept;

private:
  explicit share_ledger(unique_fd file) : file_(std::move(file)) {}

  unique_fd file_;
};

/// A share_stake is a borrower's side: its share in the object, until it is
/// destroyed.
class share_stake {
public:
  share_stake(unique_fd entered, std::uint64_t entry) noexcept
      : file_(std::move(entered)), entry_(entry) {}

  /// Returns whether this borrower counts the object, because the lender is
  /// gone and no other borrower took it over. Once true, it stays true.
  bool take_over() noexcept;

private:
  unique_fd file_;
  std::uint64_t entry_;
};

} // namespace vgpu
