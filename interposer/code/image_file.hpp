// Images in files.
#pragma once

#include "schema/base/fault.hpp"

#include <cstddef>
#include <vector>

namespace vgpu::interposer {

/// The file's bytes, followed by NULs so that text ends. A fault with
/// CUDA_ERROR_FILE_NOT_FOUND when it cannot be read.
result<std::vector<std::byte>> read_image_file(const char* path);

} // namespace vgpu::interposer
