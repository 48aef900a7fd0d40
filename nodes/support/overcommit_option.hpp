// --overcommit: how much more memory the manager promises than there is.
#pragma once

#include "policies/lifecycle/memory_swapping.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace vgpu {

struct overcommit {
  double memory = policy::swapping_options{}.promised;
  double swap_part = policy::swapping_options{}.swapped_part;
};

/// Adds the options, with their ranges.
void describe_overcommit(CLI::App& app, overcommit& to);

policy::swapping_options swapping_of(const overcommit& x);

/// The options that another program of ours is given for it; none where nothing
/// is out of the ordinary.
std::vector<std::string> arguments_of(const overcommit& x);

} // namespace vgpu
