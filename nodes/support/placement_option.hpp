// --placement-policy: one of our strategies by name, or a plug-in's file.
#pragma once

#include "policies/placement/placement.hpp"
#include "policies/placement/placement_plugin.hpp"
#include "schema/base/fault.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace vgpu {

/// Describes a chosen placement policy.
struct placement_choice {
  std::string name = "least-loaded"; // as it was given
  policy::placement_strategy how = policy::placement_strategy::least_loaded;
  /// Holds the plug-in's policy, which decides if it is set. Its code stays
  /// loaded as long as anybody holds it.
  std::shared_ptr<policy::placement_policy> own;
};

/// Parses a strategy's name, or the path of a plug-in (placement_plugin.hpp),
/// which contains a `/` or ends with `.so`. Loading a plug-in runs its code.
/// The fault names the text and what is wrong with it.
result<placement_choice> read_placement(const std::string& text);

/// Adds --placement-policy, which takes what read_placement() takes and yields
/// placement_choice::name. It loads a plug-in once, to check that it can be
/// loaded.
void describe_placement(CLI::App& app, std::string& to);

/// Returns the text "least-loaded, bin-pack, spread or FILE.so".
std::string placement_range();

} // namespace vgpu
