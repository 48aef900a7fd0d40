#pragma once

#include <string>
#include <string_view>

namespace vgpu {

/// Makes a short, printable text for the log of bytes that a peer sent.
std::string printable(std::string_view name);

} // namespace vgpu
