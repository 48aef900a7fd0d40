#include "actors/link/doorbell.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace vgpu {

doorbell::doorbell() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0)
    throw std::system_error{errno, std::generic_category(), "eventfd"};
}

doorbell::~doorbell() {
  ::close(fd_);
}

void doorbell::ring() noexcept {
  std::uint64_t one = 1;
  // The write fails only when the count is at its maximum, and then the bell
  // already rings.
  [[maybe_unused]] auto n = ::write(fd_, &one, sizeof(one));
}

void doorbell::silence() noexcept {
  std::uint64_t count;
  [[maybe_unused]] auto n = ::read(fd_, &count, sizeof(count));
}

} // namespace vgpu
