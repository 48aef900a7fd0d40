// Keeps this library's descriptors away from those of standard streams.
#pragma once

#include <array>
#include <cstddef>

#include <fcntl.h>
#include <unistd.h>

namespace vgpu::interposer {

/// While it exists, no descriptor that is opened has the number of a standard
/// stream. Daemons close those three, and code that still writes to one of them
/// must not write into this library's memory or connections.
class stdio_plug {
public:
  stdio_plug() noexcept {
    for (;;) {
      auto fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (fd < 0)
        return;
      if (fd > STDERR_FILENO || count_ == held_.size()) {
        ::close(fd);
        return;
      }
      held_[count_++] = fd;
    }
  }
  stdio_plug(const stdio_plug&) = delete;
  stdio_plug& operator=(const stdio_plug&) = delete;
  ~stdio_plug() {
    while (count_ != 0)
      ::close(held_[--count_]);
  }

private:
  std::array<int, 3> held_{};
  std::size_t count_ = 0;
};

} // namespace vgpu::interposer
