// --overcommit: how much more memory the manager promises than exists.
#pragma once

#include "policies/lifecycle/memory_swapping.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace vgpu {

/// Holds the options of memory swapping, as policy::swapping_options has them.
struct overcommit {
  double memory = policy::swapping_options{}.promised;
  double swap_part = policy::swapping_options{}.swapped_part;
};

/// Adds the options with their ranges.
void describe_overcommit(CLI::App& app, overcommit& to);

/// Returns the options as the policy of memory swapping takes them.
policy::swapping_options swapping_of(const overcommit& x);

/// Returns the options to pass to another program of ours, or none where both
/// have their defaults.
std::vector<std::string> arguments_of(const overcommit& x);

} // namespace vgpu
