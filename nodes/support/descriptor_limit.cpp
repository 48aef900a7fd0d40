#include "nodes/support/descriptor_limit.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace vgpu {

void allow_many_descriptors(std::uint64_t wanted) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

} // namespace vgpu
