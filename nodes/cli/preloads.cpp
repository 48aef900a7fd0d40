#include "nodes/cli/preloads.hpp"

#include <filesystem>
#include <fstream>
#include <string_view>

namespace vgpu::command {

bool runs_python(const std::string& program) {
  std::error_code error;
  auto file = std::filesystem::canonical(program, error);
  if (error)
    return false;
  if (file.filename().string().starts_with("python"))
    return true;
  // A script's interpreter, in at most as many bytes as the kernel reads.
  char first[256] = {};
  std::ifstream{file, std::ios::binary}.read(first, sizeof first - 1);
  std::string_view line{first};
  line = line.substr(0, line.find('\n'));
  return line.starts_with("#!") && line.find("python") != line.npos;
}

std::string with_own_cupti(const std::string& before,
                           const std::string& folder) {
  auto out = before;
  for (auto version : {"13", "12"}) {
    auto path = folder + "/libcupti.so." + version;
    std::error_code error;
    if (!std::filesystem::exists(path, error) ||
        before.find(path) != std::string::npos)
      continue;
    out += (out.empty() ? "" : ":") + path;
  }
  return out;
}

} // namespace vgpu::command
