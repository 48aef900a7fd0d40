#include "nodes/support/run_dir.hpp"

#include "nodes/support/paths.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace vgpu {

result<bool> make_private_dir(const std::string& path) {
  auto fail = [&](const std::string& why) {
    return fault{fault_kind::system, "run directory " + path + ": " + why +
                                         "; choose another with --run-dir"};
  };
  std::error_code error;
  auto parent = std::filesystem::path{path}.parent_path();
  if (!parent.empty())
    std::filesystem::create_directories(parent, error);
  auto made = ::mkdir(path.c_str(), 0700) == 0;
  if (!made && errno != EEXIST)
    return fail(std::string{"cannot create it: "} + std::strerror(errno));
  struct stat what = {};
  if (::lstat(path.c_str(), &what) != 0 || !S_ISDIR(what.st_mode))
    return fail("it is not a directory");
  if (what.st_uid != ::geteuid())
    return fail("it belongs to another user");
  if ((what.st_mode & 0022) != 0)
    return fail("others may write to it");
  return made;
}

status check_own_dir(const std::string& path) {
  auto fail = [&](const std::string& why) {
    return fault{fault_kind::refused,
                 "run directory " + path + ": " + why +
                     ", so its manager is not trusted; remove it, set "
                     "XDG_RUNTIME_DIR, or name a manager with VGPU_MANAGER or "
                     "--manager"};
  };
  struct stat what = {};
  if (::lstat(path.c_str(), &what) != 0)
    return errno == ENOENT
               ? status{}
               : fail(std::string{"cannot read it: "} + std::strerror(errno));
  if (!S_ISDIR(what.st_mode))
    return fail("it is not a directory");
  if (what.st_uid != ::geteuid())
    return fail("it belongs to another user (" + std::to_string(what.st_uid) +
                ")");
  if ((what.st_mode & 0077) != 0)
    return fail("other users may enter it");
  return {};
}

std::string own_cluster_dir() {
  return default_run_dir() + "-own";
}

status check_own_cluster(const std::string& endpoint) {
  for (const auto& folder : {default_run_dir(), own_cluster_dir()}) {
    if (endpoint != endpoint_in(folder))
      continue;
    if (auto good = check_own_dir(folder); !good)
      return good;
    auto owner = owner_of(endpoint);
    if (owner && *owner != ::geteuid() && *owner != 0)
      return fault{fault_kind::refused, "the manager at " + endpoint +
                                            " belongs to another user (" +
                                            std::to_string(*owner) + ")"};
  }
  return {};
}

run_dir_part::run_dir_part(std::string path)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ >= 0)
    ::flock(fd_, LOCK_SH);
}

run_dir_part::run_dir_part(run_dir_part&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

run_dir_part::~run_dir_part() {
  if (fd_ < 0)
    return;
  // The conversion of a lock releases the old one first, so of two processes
  // that leave at once, at least one finds itself alone.
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ::close(fd_);
}

} // namespace vgpu
