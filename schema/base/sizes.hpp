#pragma once

#include "schema/base/fault.hpp"

#include <cstdint>
#include <string>

namespace vgpu {

/// Bytes, from "512MiB", "4G", "1.5GiB", "65536": a number and, perhaps, K, M,
/// G or T, which count in powers of 1024, with or without "iB" or "B".
result<std::uint64_t> parse_size(const std::string& text);

/// "4.0 GiB", for people.
std::string show_size(std::uint64_t bytes);

} // namespace vgpu
