// Named specifications of vGPUs, kept in a TOML file.
#pragma once

#include "schema/base/fault.hpp"

#include <string>
#include <utility>
#include <vector>

namespace vgpu {

/// Fields by name and the text of their values, as set_field() takes them.
using field_texts = std::vector<std::pair<std::string, std::string>>;

/// Where profiles are looked for: $VGPU_PROFILES, else vgpu/profiles.toml in
/// $XDG_CONFIG_HOME or ~/.config, else /etc/vgpu/profiles.toml; the first that
/// exists, or the first of all where none does.
std::string profiles_file();

/// The fields of the profile of that name: a table of the file, whose keys are
/// the fields of a specification.
///
///   [quarter]
///   share = 0.25
///   memory = "2GiB"
///
/// Each is checked; a fault names file, profile and field, and what the field's
/// range is.
result<field_texts> read_profile(const std::string& file,
                                 const std::string& name);

} // namespace vgpu
