#include "actors/lend/host_files.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu {

namespace {

bool is_same_file(int a, const struct stat& other) {
  struct stat x {};
  return ::fstat(a, &x) == 0 && x.st_dev == other.st_dev &&
         x.st_ino == other.st_ino;
}

fault not_the_program(std::uint32_t process) {
  return {fault_kind::usage,
          "process " + std::to_string(process) + " is not the program"};
}

} // namespace

status host_files::show(const call::host_file& what) {
  auto pid = static_cast<pid_t>(what.process);
  if (pid <= 0 || pid == ::getpid() || pid == client_)
    return not_the_program(what.process);
  // Whatever is opened in this directory belongs to that process, even if its
  // number is reused meanwhile.
  auto path = "/proc/" + std::to_string(pid) + "/fd";
  unique_fd of{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  struct stat control {};
  if (!of || ::fstatat(of.get(), std::to_string(what.control).c_str(), &control,
                       0) != 0)
    return fault{fault_kind::unsupported,
                 "the worker cannot look at the program's files in " + path +
                     " (" + std::strerror(errno) +
                     "); run both as one user and in one PID namespace"};
  if (!is_same_file(area_->control_fd(), control))
    return not_the_program(what.process);
  // Devices and pipes are refused, because opening them has effects.
  struct stat kind {};
  auto name = std::to_string(what.file);
  if (::fstatat(of.get(), name.c_str(), &kind, 0) != 0 ||
      !S_ISREG(kind.st_mode))
    return fault{fault_kind::usage,
                 "descriptor " + name + " of the program is not a file"};
  unique_fd file{::openat(of.get(), name.c_str(), O_RDWR | O_CLOEXEC)};
  if (!file || !is_same_file(file.get(), kind))
    return fault{fault_kind::unsupported,
                 "the worker cannot open the program's file " + path + "/" +
                     name};
  if (auto ok =
          area_->show_file(what.address, what.bytes, file.get(), what.offset);
      !ok)
    return ok;
  shown_[what.address] = what.bytes;
  return {};
}

status host_files::hide(device_address address, std::uint64_t bytes) {
  auto known = shown_.find(address);
  if (known == shown_.end() || known->second != bytes)
    return {};
  shown_.erase(known);
  return area_->show_own(address, bytes);
}

} // namespace vgpu
