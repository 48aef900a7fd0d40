// The reports that nvidia-smi prints for people.
#pragma once

#include "interposer/smi/gpus.hpp"

#include <string>

namespace vgpu::smi {

/// Writes a table of the vGPUs and a table of the processes on them, arranged
/// like nvidia-smi's.
std::string table_of(const snapshot& x);

/// Writes a line for each vGPU, with its UUID.
std::string list_of(const snapshot& x);

} // namespace vgpu::smi
