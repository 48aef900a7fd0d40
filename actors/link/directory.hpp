#pragma once

#include "schema/base/ids.hpp"

#include <map>
#include <string>

namespace vgpu {

/// Where each logical name (`node/a`, `vgpu/17`) is to be found now. An entry
/// gives way only to one of the same or a later epoch, so that news that comes
/// late cannot bring a former place back. A value of one actor's state.
class directory {
public:
  struct entry {
    /// A connection (for nodes) or an endpoint (for vGPUs).
    std::string address;
    vgpu::epoch epoch;
    bool operator==(const entry&) const = default;
  };

  /// False, and no change, when `what` is older than what is known.
  bool publish(const std::string& name, entry what);

  /// Takes the name away unless a later epoch holds it; false then.
  bool withdraw(const std::string& name, vgpu::epoch upto);

  /// Null when nobody has that name.
  const entry* find(const std::string& name) const;

private:
  std::map<std::string, entry> entries_;
};

} // namespace vgpu
