// A process's own copy of a share_table that others can write, also hostile
// ones.
#pragma once

#include "policies/compute/share_table.hpp"

namespace vgpu::policy {

/// Is a private copy of a shared table. The engines use the copy, so that no
/// other process can change a value between its check and its use. Not
/// thread-safe.
class share_copy {
public:
  /// Copies the shared table, repairs numbers of seats and policies that do not
  /// exist, and bounds all others so that sums of them do not overflow.
  share_table& take(const share_table& shared);
  /// Copies the table back. Call it after take(), with the same table.
  void give(share_table& shared);

private:
  share_table own_{};
  /// Counts the seats that the last take() copied.
  std::uint32_t seated_ = 0;
};

} // namespace vgpu::policy
