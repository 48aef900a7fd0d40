#include "nodes/keys/key_folder.hpp"

#include "schema/base/own_environment.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vgpu {

namespace {

constexpr std::size_t longest_key_file = std::size_t{4} << 20;

std::string own_setting(const char* name) {
  const auto* text = setting(name);
  return text == nullptr ? std::string{} : std::string{text};
}

std::string system_error() {
  return std::strerror(errno);
}

bool is_trusted(uid_t owner) {
  return owner == ::geteuid() || owner == 0;
}

fault refused(const std::string& path, const std::string& why) {
  return {fault_kind::refused, path + ": " + why};
}

/// Returns why an open file must not be used; empty: it may.
std::string distrust(const struct stat& file) {
  if (!S_ISREG(file.st_mode))
    return "it is not a file";
  if (!is_trusted(file.st_uid))
    return "it belongs to another user (" + std::to_string(file.st_uid) + ")";
  if ((file.st_mode & 0077) != 0)
    return "other users may read or write it; make it private with chmod 600, "
           "and replace its keys";
  if (file.st_size > static_cast<off_t>(longest_key_file))
    return "it is longer than 4 MiB";
  return {};
}

status write_all(int fd, const std::string& text, const std::string& path) {
  for (std::size_t done = 0; done < text.size();) {
    auto n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR)
      return fault{fault_kind::system,
                   path + ": cannot write it: " + system_error()};
    done += n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  return ::fsync(fd) == 0
             ? status{}
             : fault{fault_kind::system,
                     path + ": cannot write it: " + system_error()};
}

} // namespace

std::string default_key_folder() {
  if (auto chosen = own_setting("VGPU_KEYS"); !chosen.empty())
    return chosen;
  if (::geteuid() == 0)
    return "/etc/vgpu";
  if (auto folder = own_setting("XDG_CONFIG_HOME"); !folder.empty())
    return folder + "/vgpu";
  auto home = own_setting("HOME");
  if (home.empty())
    if (const auto* user = ::getpwuid(::geteuid()))
      home = user->pw_dir;
  return home + "/.config/vgpu";
}

/// Opens the folder. Fails with `missing` where there is none.
result<unique_fd> key_folder::open() const {
  unique_fd out{
      ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!out)
    return fault{errno == ENOENT ? fault_kind::missing : fault_kind::refused,
                 path_ + ": cannot open it: " + system_error()};
  struct stat folder = {};
  if (::fstat(out.get(), &folder) != 0)
    return refused(path_, "cannot read it: " + system_error());
  if (!is_trusted(folder.st_uid))
    return refused(path_, "it belongs to another user (" +
                              std::to_string(folder.st_uid) + ")");
  if ((folder.st_mode & 0022) != 0)
    return refused(path_, "others may write to it");
  return out;
}

result<unique_fd> key_folder::make() const {
  std::error_code ignored;
  auto parent = std::filesystem::path{path_}.parent_path();
  if (!parent.empty())
    std::filesystem::create_directories(parent, ignored);
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    return fault{fault_kind::system,
                 path_ + ": cannot make it: " + system_error()};
  return open();
}

result<std::optional<std::string>>
key_folder::read(const std::string& name) const {
  auto folder = open();
  if (!folder && folder.why().kind == fault_kind::missing)
    return std::optional<std::string>{};
  if (!folder)
    return folder.why();
  // Without O_NONBLOCK, the open of a pipe would wait for its other end.
  unique_fd file{::openat(folder->get(), name.c_str(),
                          O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (!file && errno == ENOENT)
    return std::optional<std::string>{};
  struct stat what = {};
  if (!file || ::fstat(file.get(), &what) != 0)
    return refused(path_of(name), "cannot open it: " + system_error());
  if (auto why = distrust(what); !why.empty())
    return refused(path_of(name), why);
  std::string out(static_cast<std::size_t>(what.st_size), '\0');
  std::size_t have = 0;
  while (have < out.size()) {
    auto n = ::read(file.get(), out.data() + have, out.size() - have);
    if (n < 0 && errno != EINTR)
      return refused(path_of(name), "cannot read it: " + system_error());
    if (n == 0)
      break;
    have += n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  out.resize(have);
  return std::optional{std::move(out)};
}

status key_folder::write(const std::string& name,
                         const std::string& text) const {
  auto folder = make();
  if (!folder)
    return folder.why();
  auto draft = "." + name + "." + std::to_string(::getpid());
  ::unlinkat(folder->get(), draft.c_str(), 0);
  unique_fd file{::openat(folder->get(), draft.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          0600)};
  if (!file)
    return fault{fault_kind::system,
                 path_of(draft) + ": cannot make it: " + system_error()};
  auto done = write_all(file.get(), text, path_of(draft));
  if (done && ::renameat(folder->get(), draft.c_str(), folder->get(),
                         name.c_str()) != 0)
    done = fault{fault_kind::system,
                 path_of(name) + ": cannot replace it: " + system_error()};
  if (!done)
    ::unlinkat(folder->get(), draft.c_str(), 0);
  else
    ::fsync(folder->get());
  return done;
}

status key_folder::remove(const std::string& name) const {
  auto folder = open();
  if (!folder)
    return folder.why().kind == fault_kind::missing ? status{}
                                                    : status{folder.why()};
  if (::unlinkat(folder->get(), name.c_str(), 0) != 0 && errno != ENOENT)
    return fault{fault_kind::system,
                 path_of(name) + ": cannot remove it: " + system_error()};
  return {};
}

result<unique_fd> key_folder::lock() const {
  constexpr auto tries = 50;
  constexpr std::chrono::milliseconds between{2};
  auto folder = make();
  if (!folder)
    return folder.why();
  for (auto i = 0; i < tries; ++i) {
    if (::flock(folder->get(), LOCK_EX | LOCK_NB) == 0)
      return folder;
    std::this_thread::sleep_for(between);
  }
  return fault{fault_kind::not_ready,
               path_ + ": another process is changing it; try again"};
}

} // namespace vgpu
