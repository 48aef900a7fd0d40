// Logical names, and where they are.
#pragma once

#include "schema/base/ids.hpp"

#include <map>
#include <string>

namespace vgpu {

/// Returns the logical name of a vGPU, `vgpu/17`. It stays the same wherever
/// the vGPU moves.
inline std::string logical_name(vgpu_id x) {
  return "vgpu/" + std::to_string(x.value);
}

/// Knows the current place of each logical name (`node/a`, `vgpu/17`). Only an
/// entry of the same or a later epoch replaces another, so that late news
/// cannot bring a former place back. Not thread-safe: it is a value in one
/// actor's state.
class directory {
public:
  /// Holds where a name is, and since which epoch.
  struct entry {
    /// Holds the connection of a node, or the endpoint of a vGPU.
    std::string address;
    vgpu::epoch epoch;
    bool operator==(const entry&) const = default;
  };

  /// Records `what`. Returns false, and changes nothing, when `what` is older
  /// than the known entry.
  bool publish(const std::string& name, entry what);

  /// Removes the name. Returns false, and removes nothing, when the name has no
  /// entry or one of a later epoch.
  bool withdraw(const std::string& name, vgpu::epoch upto);

  /// Returns null when the name has no entry.
  const entry* find(const std::string& name) const;

private:
  std::map<std::string, entry> entries_;
};

} // namespace vgpu
