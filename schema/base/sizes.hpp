#pragma once

#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>

namespace vgpu {

/// Parses a size in bytes such as "512MiB", "4G", "1.5GiB" or "65536": a number
/// with an optional K, M, G or T, which count in powers of 1024, with or
/// without "iB" or "B".
result<std::uint64_t> parse_size(const std::string& text);

/// Returns a size for people, such as "4.0 GiB".
std::string show_size(std::uint64_t bytes);

} // namespace vgpu
