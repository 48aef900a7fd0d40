// Whose keys may connect to a process's links, and who they are.
#pragma once

#include "actors/link/doorbell.hpp"
#include "schema/base/enum_names.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace vgpu {

/// Describes whom a key names. It comes from the owner of the listening
/// process, and never from a message.
struct principal {
  /// Names the kinds of principals.
  enum class kind : std::uint8_t {
    /// Offers GPUs.
    node,
    /// Runs programs on vGPUs.
    tenant,
    /// Runs programs, and commands of every kind.
    admin,
    /// Holds a token, and may ask for a key of its own.
    newcomer
  };
  kind is = kind::tenant;
  /// Is the node's name, or a name for people. Different keys have different
  /// names.
  std::string name;
  /// Names to whom the use is charged. Empty for nodes.
  std::string tenant;
  /// Is the public key that was proved. permitted_keys writes it.
  std::string key{};
  bool operator==(const principal&) const = default;
};

/// Counts the kinds of principals.
inline constexpr std::size_t principal_kinds =
    static_cast<std::size_t>(principal::kind::newcomer) + 1;

inline constexpr enum_names<principal::kind, principal_kinds> principal_names{{
    {principal::kind::node, "node"},
    {principal::kind::tenant, "tenant"},
    {principal::kind::admin, "admin"},
    {principal::kind::newcomer, "token"},
}};
static_assert(is_complete(principal_names, principal::kind::newcomer));

/// Returns whether the name may be a principal's or a tenant's: 1 to 64
/// letters, digits, and - _ . @
bool is_principal_name(std::string_view name) noexcept;

/// Is null where nobody is named.
using principal_ptr = std::shared_ptr<const principal>;

/// Maps public keys (as text) to principals. Thread-safe.
class permitted_keys {
public:
  using table = std::map<std::string, principal, std::less<>>;

  explicit permitted_keys(table all = {});

  /// Replaces all of them. The connections of keys that are not permitted any
  /// more, or that name somebody else, end.
  void replace(table all);

  /// Returns whom the key names, with the key, or null where it is not
  /// permitted.
  principal_ptr find(std::string_view key) const;

  /// Makes `bell` ring, for as long as it lives, when keys are revoked.
  void watch(const std::shared_ptr<doorbell>& bell);

private:
  mutable std::mutex mutex_;
  std::map<std::string, principal_ptr, std::less<>> all_;
  std::vector<std::weak_ptr<doorbell>> bells_;
};

} // namespace vgpu
