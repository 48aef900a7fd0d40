#include "counted.hpp"

#include <cstddef>
#include <ctime>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>

namespace {

thread_local std::uint64_t allocations = 0;
thread_local std::uint64_t locks = 0;

} // namespace

// These are the C library's own names for the functions that are replaced here.
extern "C" void* __libc_malloc(std::size_t bytes);

extern "C" void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using function = int (*)(pthread_mutex_t*);
  static const auto real =
      reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return real(mutex);
}

namespace vgpu::bench {

counts counts_now() noexcept {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  timespec cpu{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return {allocations, locks,
          static_cast<std::uint64_t>(used.ru_minflt + used.ru_majflt),
          static_cast<std::uint64_t>(cpu.tv_sec) * 1'000'000'000U +
              static_cast<std::uint64_t>(cpu.tv_nsec)};
}

} // namespace vgpu::bench
