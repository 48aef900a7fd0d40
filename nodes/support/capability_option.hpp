// --capability: the compute capability of a node's cpu GPUs.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace vgpu {

/// Adds the option: a compute capability from 7.5, the oldest that CUDA 13
/// supports, to 99.9. It keeps the text as it was written.
void describe_capability(CLI::App& app, std::string& to);

} // namespace vgpu
