// Copies of granules, for a state that is written while work runs.
#pragma once

#include "devices/cpu/memory/change_tracker.hpp"
#include "devices/cpu/memory/granule_account.hpp"
#include "devices/interface/change_unit.hpp"
#include "schema/log/session_area.hpp"

#include <map>

namespace vgpu::device::cpu {

/// Keeps copies of granules in memory of the process.
class kept_granules final : public contents_room {
public:
  /// Makes room for so many, in memory that counts as the device's. The memory
  /// `of` which they are, and the account, must outlive this.
  static result<std::unique_ptr<contents_room>> make(const change_tracker& of,
                                                     granule_account& account,
                                                     std::uint64_t granules);
  ~kept_granules() override { account_.unuse(room_.size()); }

  status keep(std::span<const device_address> granules) override;
  void peek(std::span<peeked> pieces) override;

private:
  kept_granules(const change_tracker& of, granule_account& account,
                mapping room)
      : of_(of), account_(account), room_(std::move(room)) {
    account_.use(room_.size());
  }

  const change_tracker& of_;
  granule_account& account_;
  mapping room_;
  /// Says where each granule's copy begins.
  std::map<device_address, std::byte*> copies_;
};

} // namespace vgpu::device::cpu
