// Aligned tables of a command's output.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vgpu::command {

/// Prints rows of equally many cells, the first of them headings. The first
/// `words` columns are aligned to the left, and the others, which are numbers,
/// to the right.
void print_rows(const std::vector<std::vector<std::string>>& rows,
                std::size_t words);

} // namespace vgpu::command
