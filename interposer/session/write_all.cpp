#include "interposer/session/write_all.hpp"

#include "interposer/session/uncancelled.hpp"

#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace vgpu::interposer {

bool write_all(int to, std::string_view text) noexcept {
  uncancelled guard;
  while (!text.empty()) {
    auto n = ::write(to, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd one{to, POLLOUT, 0};
      ::poll(&one, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void print_all(std::FILE* to, std::string_view text) noexcept {
  uncancelled guard;
  ::flockfile(to);
  std::fflush(to);
  if (auto fd = ::fileno(to); fd >= 0) {
    write_all(fd, text);
  } else {
    std::fwrite(text.data(), 1, text.size(), to);
    std::fflush(to);
  }
  ::funlockfile(to);
}

} // namespace vgpu::interposer
