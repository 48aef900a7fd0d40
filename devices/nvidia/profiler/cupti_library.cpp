#include "devices/nvidia/profiler/cupti_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace vgpu::device::nvidia {

namespace {

namespace fs = std::filesystem;

/// Returns the folders of toolkits, the newest first.
std::vector<fs::path> toolkits() {
  std::vector<fs::path> out{"/usr/local/cuda", "/opt/cuda"};
  std::vector<fs::path> versions;
  std::error_code error;
  for (fs::directory_iterator i{"/usr/local", error}, end; !error && i != end;
       i.increment(error))
    if (i->path().filename().string().starts_with("cuda-"))
      versions.push_back(i->path());
  std::ranges::sort(versions, std::ranges::greater{});
  out.insert(out.end(), versions.begin(), versions.end());
  return out;
}

std::vector<fs::path> library_folders() {
  std::vector<fs::path> out;
  for (const auto& x : toolkits())
    for (const auto* inside :
         {"extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "lib"})
      out.push_back(x / inside);
  for (const auto* x : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
    out.emplace_back(x);
  const auto* more = std::getenv("LD_LIBRARY_PATH");
  std::istringstream parts{more != nullptr ? more : ""};
  for (std::string x; std::getline(parts, x, ':');)
    if (x.starts_with('/'))
      out.emplace_back(x);
  return out;
}

/// Tells whether this is our own library, which is installed with this program:
/// PREFIX/lib for PREFIX/bin.
bool is_ours(const fs::path& file) {
  std::error_code error;
  auto self = fs::read_symlink("/proc/self/exe", error);
  auto folder = self.parent_path().parent_path() / "lib";
  return fs::equivalent(file, folder / "libcupti.so.12", error) ||
         fs::equivalent(file, folder / "libcupti.so.13", error);
}

fault not_usable(const std::string& path, const std::string& why) {
  return {fault_kind::unsupported, "CUPTI " + path + ": " + why};
}

template <class Function>
bool find_function(void* in, const char* name, Function& to) {
  to = reinterpret_cast<Function>(::dlsym(in, name));
  return to != nullptr;
}

} // namespace

std::vector<std::string> cupti_places(int driver_version) {
  if (const auto* named = std::getenv("VGPU_NVIDIA_CUPTI");
      named != nullptr && *named != '\0')
    return std::string_view{named} == "off" ? std::vector<std::string>{}
                                            : std::vector<std::string>{named};
  auto folders = library_folders();
  std::vector<std::string> names{"libcupti.so.13", "libcupti.so.12"};
  if (driver_version < 13000)
    std::ranges::reverse(names);
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& name : names)
    for (const auto& x : folders)
      if (auto file = x / name; fs::exists(file, error) && !is_ours(file))
        out.push_back(file);
  return out;
}

result<cupti_ptr> open_cupti(const std::string& path) {
  if (path.empty() || path.front() != '/')
    return not_usable(path, "not an absolute path");
  if (is_ours(path))
    return not_usable(path, "this is vgpu's own libcupti");
  auto* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return not_usable(path, ::dlerror());
  auto out = std::make_shared<cupti_library>();
  out->path = path;
#define VGPU_CUPTI_LOOK_UP(name, ...)                                          \
  if (!find_function(library, #name, out->name))                               \
    return not_usable(path, "it lacks " #name);
  VGPU_CUPTI_CALLS(VGPU_CUPTI_LOOK_UP)
#undef VGPU_CUPTI_LOOK_UP
  return cupti_ptr{std::move(out)};
}

} // namespace vgpu::device::nvidia
