// What nvidia-smi prints for a person.
#pragma once

#include "interposer/smi/gpus.hpp"

#include <string>

namespace vgpu::smi {

/// A table of the vGPUs and one of the processes on them, arranged as those
/// know it who read nvidia-smi's.
std::string table_of(const snapshot& x);

/// A line for each vGPU, with its UUID.
std::string list_of(const snapshot& x);

} // namespace vgpu::smi
