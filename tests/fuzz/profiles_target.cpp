// Reads a profile from a TOML file.
#include "fuzz_target.hpp"
#include "nodes/cli/profiles.hpp"
#include "schema/log/session_area.hpp"

#include <string>

#include <sys/mman.h>
#include <unistd.h>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static unique_fd file{::memfd_create("profiles", MFD_CLOEXEC)};
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  auto path = "/proc/self/fd/" + std::to_string(file.get());
  (void)read_profile(path, "quarter");
  (void)read_profile(path, "missing");
  return 0;
}
