// Converts the control plane's values to and from JSON, for the store, the
// status and the event stream.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/records/records.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace vgpu {

nlohmann::json to_json(const control::event& x);
nlohmann::json to_json(const session_record& x);

/// Leaves out the limits that are none.
nlohmann::json to_json(const control::tenant_limits& x);

/// Returns the value that to_json() wrote. Throws nlohmann::json::exception for
/// any other JSON.
control::event event_from_json(const nlohmann::json& x);
session_record session_from_json(const nlohmann::json& x);
control::tenant_limits limits_from_json(const nlohmann::json& x);

/// Writes unknown values as null.
nlohmann::json to_json(const control::side_memory& x);

/// Returns a value as a table shows it.
std::string text_of(const nlohmann::json& x);

/// Returns one line of text, in which bytes that are no UTF-8 are replaced.
std::string to_line(const nlohmann::json& x);

} // namespace vgpu
