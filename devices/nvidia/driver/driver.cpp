#include "devices/nvidia/driver/driver.hpp"

#include "schema/base/cuda_fault.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace vgpu::device::nvidia {

namespace {

constexpr const char* setting = "VGPU_NVIDIA_DRIVER";

bool same_file(const std::string& a, const std::string& b) {
  struct stat x = {};
  struct stat y = {};
  return ::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0 &&
         x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// Returns the path of our own library, which is installed with this program:
/// PREFIX/lib for PREFIX/bin.
std::string our_library() {
  std::error_code error;
  auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path().parent_path() / "lib" / "libcuda.so.1";
}

/// Tells whether the library is ours, or a copy of it: ours needs Cap'n Proto,
/// and NVIDIA's does not.
bool is_ours(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
    return false;
  const char* strings = nullptr;
  for (const auto* d = map->l_ld; d->d_tag != DT_NULL; ++d)
    if (d->d_tag == DT_STRTAB)
      strings = reinterpret_cast<const char*>(d->d_un.d_ptr);
  if (strings == nullptr)
    return false;
  for (const auto* d = map->l_ld; d->d_tag != DT_NULL; ++d)
    if (d->d_tag == DT_NEEDED &&
        std::string_view{strings + d->d_un.d_val}.starts_with("libcapnp"))
      return true;
  return false;
}

fault refused(const std::string& path, const std::string& why) {
  return cuda_fault(CUDA_ERROR_NO_DEVICE, "NVIDIA driver " + path + ": " + why +
                                              "; " + setting +
                                              " names another");
}

/// Looks up one entry point. It stays null where the driver has none of that
/// name and version.
template <class Function>
void look_up(decltype(&::cuGetProcAddress) from, const char* name, int version,
             Function& to) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult why = {};
  if (from(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &why) ==
      CUDA_SUCCESS)
    to = reinterpret_cast<Function>(found);
}

} // namespace

fault driver::failed(CUresult why, const std::string& what) const {
  const char* name = nullptr;
  if (cuGetErrorName == nullptr || cuGetErrorName(why, &name) != CUDA_SUCCESS)
    name = "unknown error";
  return cuda_fault(why, what + ": " + name);
}

std::vector<std::string> driver_places() {
  if (const auto* named = std::getenv(setting);
      named != nullptr && *named != '\0')
    return {named};
  std::vector<std::string> out;
  for (const auto* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
        "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
        "/run/opengl-driver/lib", "/usr/lib/wsl/lib"})
    out.push_back(std::string{folder} + "/libcuda.so.1");
  return out;
}

result<std::string> find_driver() {
  auto ours = our_library();
  std::string tried;
  for (auto& place : driver_places()) {
    if (::access(place.c_str(), R_OK) == 0 && !same_file(place, ours))
      return place;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return cuda_fault(CUDA_ERROR_NO_DEVICE,
                    "there is no NVIDIA driver on this host: "
                    "none of " +
                        tried + "; " + setting +
                        " names it where it lies elsewhere");
}

result<driver_ptr> open_driver(const std::string& path) {
  if (path.empty() || path.front() != '/')
    return refused(path, "not an absolute path");
  if (same_file(path, our_library()))
    return refused(path, "this is vgpu's own libcuda.so.1");
  auto* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return refused(path, ::dlerror());
  if (is_ours(library))
    return refused(path, "this is a copy of vgpu's own libcuda.so.1");
  auto get = reinterpret_cast<decltype(&::cuGetProcAddress)>(
      ::dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr)
    return refused(path, "it has no cuGetProcAddress_v2: driver 550 (CUDA "
                         "12.4) or newer is needed");
  auto out = std::make_shared<driver>();
  out->path = path;
  std::string missing;
#define VGPU_NVIDIA_LOOK_UP(name)                                              \
  look_up(get, #name, oldest_version, out->name);                              \
  if (out->name == nullptr)                                                    \
    missing += " " #name;
  VGPU_NVIDIA_CALLS(VGPU_NVIDIA_LOOK_UP)
#undef VGPU_NVIDIA_LOOK_UP
#define VGPU_NVIDIA_LOOK_UP(name, since) look_up(get, #name, since, out->name);
  VGPU_NVIDIA_LATER_CALLS(VGPU_NVIDIA_LOOK_UP)
#undef VGPU_NVIDIA_LOOK_UP
  if (!missing.empty())
    return refused(path, "it lacks" + missing +
                             ": driver 550 (CUDA 12.4) or newer is needed");
  return driver_ptr{std::move(out)};
}

} // namespace vgpu::device::nvidia
