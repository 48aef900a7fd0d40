#include "schema/base/processors.hpp"

#include <algorithm>

#include <sched.h>

namespace vgpu {

unsigned own_processors() noexcept {
  // One cpu_set_t has room for 1024 processors, and Linux may have more.
  cpu_set_t set[8];
  if (::sched_getaffinity(0, sizeof(set), set) != 0)
    return 1;
  return static_cast<unsigned>(std::max(CPU_COUNT_S(sizeof(set), set), 1));
}

} // namespace vgpu
