#include "actors/link/log_file.hpp"

#include "schema/log/session_area.hpp"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu {

log_file::log_file(int fd, const char* path, std::uint64_t most)
    : fd_(fd), most_(most) {
  struct stat own = {};
  struct stat there = {};
  if (path != nullptr && ::fstat(fd, &own) == 0 && S_ISREG(own.st_mode) &&
      (::fcntl(fd, F_GETFL) & O_APPEND) != 0 && ::stat(path, &there) == 0 &&
      own.st_ino == there.st_ino && own.st_dev == there.st_dev)
    path_ = path;
}

void log_file::look() {
  if (!is_bounded() || ++lines_ % lines_at_once != 0)
    return;
  std::lock_guard guard{lock_};
  struct stat now = {};
  if (::fstat(fd_, &now) != 0)
    return;
  auto bytes = static_cast<std::uint64_t>(now.st_size);
  // Lines that another process writes between the two steps are lost.
  if (bytes >= most_ && (keep_contents() || bytes >= 2 * most_))
    (void)!::ftruncate(fd_, 0);
}

/// Copies the contents to FILE.1.
bool log_file::keep_contents() const {
  unique_fd from{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  unique_fd to{::open((path_ + ".1").c_str(),
                      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                      0600)};
  if (!from || !to)
    return false;
  constexpr std::size_t part = std::size_t{1} << 20;
  // It ends even while others write faster than it copies.
  for (std::uint64_t copied = 0; copied < 2 * most_;) {
    auto n = ::sendfile(to.get(), from.get(), nullptr, part);
    if (n <= 0)
      return n == 0;
    copied += static_cast<std::uint64_t>(n);
  }
  return true;
}

} // namespace vgpu
