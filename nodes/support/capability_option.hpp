// --capability: what the cpu GPUs of a node say they are.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace vgpu {

/// Adds the option, a compute capability from 7.5, the oldest that CUDA 13
/// knows, to 99.9; it is kept as it was written.
void describe_capability(CLI::App& app, std::string& to);

} // namespace vgpu
