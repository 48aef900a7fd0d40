// Images in files.
#pragma once

#include "schema/base/fault.hpp"

#include <cstddef>
#include <vector>

namespace vgpu::interposer {

/// Reads the file's bytes and appends NULs, so that text ends. Returns a fault
/// with CUDA_ERROR_FILE_NOT_FOUND when it cannot read the file.
result<std::vector<std::byte>> read_image_file(const char* path);

} // namespace vgpu::interposer
