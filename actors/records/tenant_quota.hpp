// What the sessions of a tenant have together, and whether one more of them is
// within its limits.
#pragma once

#include "actors/link/peer_messages.hpp"
#include "actors/records/records.hpp"
#include "schema/base/fault.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vgpu {

/// Is the tenant of sessions that were requested without a key, or with a key
/// of no tenant. Its limits hold for each tenant that was not added, too.
inline constexpr const char* default_tenant = "default";
/// Limits the tenants of a cluster.
inline constexpr std::size_t most_tenants = 1'024;

/// Returns the tenant of a session that was requested with a key of this
/// tenant; empty: without.
std::string tenant_of(const std::string& proven);

/// Returns a share for people, such as "2.5".
std::string decimal(double share);

/// Returns a fault where no tenant can have these limits. A peer may have sent
/// them.
status check_limits(const control::tenant_limits& x);

/// Returns the limits for people, such as "8 GPUs, 4 sessions".
std::string text_of(const control::tenant_limits& x);

/// Adds up what sessions of one tenant have, those that wait as well, because
/// they get their place without another question. It knows no other sessions,
/// and asks nobody.
class tenant_use {
public:
  tenant_use() = default;
  /// Begins with the use in a row of the list of tenants.
  explicit tenant_use(const control::tenant& row) noexcept;

  void add(const session_record& x);

  /// Returns a fault unless `more` may join these sessions within the limits of
  /// the tenant `name`. The fault names the limit that it would exceed, the use
  /// of it, and the command that raises it: `added` tells whether the tenant
  /// has limits of its own.
  status admit(const std::string& name, const control::tenant_limits& limits,
               bool added, const session_record& more) const;

  /// Returns the bytes that a session counts for: those on all of its pGPUs.
  /// 0: it named none, and has had no place yet.
  static std::uint64_t memory_of(const session_record& x) noexcept;

  /// Writes the use into a row of the list of tenants.
  void tell(control::tenant& to) const;

private:
  std::string suffix() const;

  std::uint64_t gpus_ = 0;
  std::uint64_t memory_ = 0;
  double share_ = 0;
  std::uint64_t sessions_ = 0;
  std::uint64_t waiting_ = 0;
};

} // namespace vgpu
