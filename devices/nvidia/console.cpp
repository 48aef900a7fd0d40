#include "devices/nvidia/console.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace vgpu::device::nvidia {

std::shared_ptr<console> console::instance() {
  static auto one = std::make_shared<console>();
  return one;
}

console::console() : file_(::memfd_create("kernel-text", MFD_CLOEXEC)) {
  if (file_ < 0)
    return;
  std::fflush(stdout);
  ::fcntl(file_, F_SETFL, O_APPEND);
  if (::dup2(file_, STDOUT_FILENO) < 0) {
    ::close(file_);
    file_ = -1;
  }
}

console::~console() {
  if (file_ >= 0)
    ::close(file_);
}

void console::deliver(const printer& to) {
  if (file_ < 0)
    return;
  std::lock_guard guard{mutex_};
  std::fflush(stdout);
  std::array<char, 16384> text;
  auto begin = read_;
  for (;;) {
    auto n =
        ::pread(file_, text.data(), text.size(), static_cast<off_t>(read_));
    if (n <= 0)
      break;
    read_ += static_cast<std::uint64_t>(n);
    if (to)
      to({text.data(), static_cast<std::size_t>(n)});
  }
  // The text goes, its place stays: the driver may be appending.
  if (read_ != begin)
    ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(read_));
}

} // namespace vgpu::device::nvidia
