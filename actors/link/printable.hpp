#pragma once

#include <string>
#include <string_view>

namespace vgpu {

/// What a peer sent, as it may stand in a log line: printable, and short.
std::string printable(std::string_view name);

} // namespace vgpu
