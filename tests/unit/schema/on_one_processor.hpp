#pragma once

#include <thread>

#include <sched.h>

namespace vgpu {

/// Starts a thread that runs on the first processor of the calling thread's
/// affinity.
template <class Body>
std::thread on_one_processor(Body body) {
  return std::thread{[body] {
    cpu_set_t all;
    CPU_ZERO(&all);
    ::sched_getaffinity(0, sizeof(all), &all);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (auto i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
      if (CPU_ISSET(i, &all))
        CPU_SET(i, &one);
    ::sched_setaffinity(0, sizeof(one), &one);
    body();
  }};
}

} // namespace vgpu
