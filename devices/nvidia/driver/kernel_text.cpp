#include "devices/nvidia/driver/kernel_text.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

namespace vgpu::device::nvidia {

std::shared_ptr<kernel_text> kernel_text::instance() {
  static auto one = std::make_shared<kernel_text>();
  return one;
}

kernel_text::kernel_text() {
  std::fflush(stdout);
  std::fflush(stderr);
  catchers_[static_cast<std::size_t>(console::output)] =
      redirect(STDOUT_FILENO, "kernels-stdout");
  catchers_[static_cast<std::size_t>(console::error)] =
      redirect(STDERR_FILENO, "kernels-stderr");
}

kernel_text::~kernel_text() {
  for (auto& x : catchers_)
    if (x.file >= 0)
      ::close(x.file);
}

kernel_text::catcher kernel_text::redirect(int descriptor, const char* name) {
  catcher out{::memfd_create(name, MFD_CLOEXEC), 0};
  if (out.file < 0)
    return {};
  ::fcntl(out.file, F_SETFL, O_APPEND);
  if (::dup2(out.file, descriptor) >= 0)
    return out;
  ::close(out.file);
  return {};
}

void kernel_text::deliver(const printer& to) {
  std::lock_guard guard{mutex_};
  std::fflush(stdout);
  std::fflush(stderr);
  for (std::size_t i = 0; i < catchers_.size(); ++i)
    deliver(catchers_[i], static_cast<console>(i), to);
}

void kernel_text::deliver(catcher& from, console as, const printer& to) {
  if (from.file < 0)
    return;
  std::array<char, 16384> text;
  auto begin = from.read;
  for (;;) {
    auto n = ::pread(from.file, text.data(), text.size(),
                     static_cast<off_t>(from.read));
    if (n <= 0)
      break;
    from.read += static_cast<std::uint64_t>(n);
    if (to)
      to(as, {text.data(), static_cast<std::size_t>(n)});
  }
  // Frees the text's memory but keeps the file's length, because the driver may
  // be appending.
  if (from.read != begin)
    ::fallocate(from.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(from.read));
}

} // namespace vgpu::device::nvidia
