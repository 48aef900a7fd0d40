// Parsing JSON that others wrote.
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace vgpu {

/// Parses JSON of a peer or a file. Values that lie deeper than any of ours are
/// left out, because copying or printing a value, which calls itself for each
/// value in it, would use up the stack. Throws nlohmann::json::exception where
/// the text is no JSON.
nlohmann::json parse_json(std::string_view text);

} // namespace vgpu
