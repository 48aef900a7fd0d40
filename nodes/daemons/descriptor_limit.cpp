#include "nodes/daemons/descriptor_limit.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace vgpu {

void allow_many_descriptors() noexcept {
  constexpr rlim_t wanted = 65'536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace vgpu
