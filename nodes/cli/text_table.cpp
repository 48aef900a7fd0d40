#include "nodes/cli/text_table.hpp"

#include <algorithm>
#include <iostream>

namespace vgpu::command {

void print_rows(const std::vector<std::vector<std::string>>& rows,
                std::size_t words) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string pad(widths[i] - row[i].size(), ' ');
      line += i < words ? row[i] + pad + "  " : pad + row[i] + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << "\n";
  }
}

} // namespace vgpu::command
