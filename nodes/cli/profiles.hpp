// Named specifications of vGPUs in a TOML file.
#pragma once

#include "schema/base/fault.hpp"

#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Holds fields by name, with the text of their values for set_field().
using field_texts = std::vector<std::pair<std::string, std::string>>;

/// Returns the file of profiles: $VGPU_PROFILES if it is set, or else the first
/// of these that exists: vgpu/profiles.toml in $XDG_CONFIG_HOME or ~/.config,
/// and /etc/vgpu/profiles.toml. Where neither exists it returns the first.
std::string profiles_file();

/// Reads the profile of that name: a table of the file whose keys are the
/// fields of a specification.
///
///   [quarter]
///   share = 0.25
///   memory = "2GiB"
///
/// It checks each field. A fault names file, profile and field, and the field's
/// range.
result<field_texts> read_profile(const std::string& file,
                                 const std::string& name);

} // namespace vgpu
