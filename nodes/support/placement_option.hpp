// Which placement policy: one of ours by name, or a file with one's own.
#pragma once

#include "policies/placement/placement.hpp"
#include "policies/placement/placement_plugin.hpp"
#include "schema/base/fault.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace vgpu {

struct placement_choice {
  std::string name = "least-loaded"; // as it was given
  policy::placement_strategy how = policy::placement_strategy::least_loaded;
  /// Set: it decides. Its code stays loaded as long as somebody holds it.
  std::shared_ptr<policy::placement_policy> own;
};

/// A strategy's name, or the path of a shared object as placement_plugin.hpp
/// describes it: what has a `/` or ends with `.so`. Loading runs code of it.
/// The fault names what was given and what is wrong with it.
result<placement_choice> read_placement(const std::string& text);

/// Adds --placement-policy: what read_placement() takes, as the name that it
/// has afterwards; loaded once to see that it can be.
void describe_placement(CLI::App& app, std::string& to);

/// least-loaded, bin-pack, spread or FILE.so
std::string placement_range();

} // namespace vgpu
