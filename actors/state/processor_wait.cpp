#include "actors/state/processor_wait.hpp"

#include <charconv>
#include <cstdint>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace vgpu {

processor_wait::processor_wait()
    : counts_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

std::chrono::nanoseconds processor_wait::total() const noexcept {
  char text[128];
  auto size = ::pread(counts_.get(), text, sizeof text, 0);
  if (size <= 0)
    return {};
  // "time on a processor, time of waiting for one, time slices"
  std::string_view all{text, static_cast<std::size_t>(size)};
  auto second = all.find(' ');
  if (second == all.npos)
    return {};
  std::int64_t ns = 0;
  std::from_chars(all.data() + second + 1, all.data() + all.size(), ns);
  return std::chrono::nanoseconds{ns};
}

} // namespace vgpu
