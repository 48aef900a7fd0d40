#include "nodes/daemons/steady_addresses.hpp"

#include <malloc.h>

#include <array>
#include <barrier>
#include <cstddef>
#include <thread>

namespace vgpu {

void keep_heap_apart() {
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_MAX, 0);
}

void take_stacks() {
  // glibc keeps the stacks of ended threads, up to 40 MiB.
  constexpr std::size_t kept = 5;
  std::barrier all{static_cast<std::ptrdiff_t>(kept)};
  std::array<std::thread, kept> threads;
  for (auto& x : threads)
    x = std::thread{[&] { all.arrive_and_wait(); }};
  for (auto& x : threads)
    x.join();
}

} // namespace vgpu
