#include "schema/base/host.hpp"

#include <sys/stat.h>

#include <fstream>

namespace vgpu {

std::string host_id() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  struct stat space = {};
  if (::stat("/proc/self/ns/net", &space) != 0)
    return boot;
  return boot + "/" + std::to_string(space.st_ino);
}

} // namespace vgpu
