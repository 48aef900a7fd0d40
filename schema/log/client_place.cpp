#include "schema/log/client_place.hpp"

#include "schema/base/endpoints.hpp"
#include "schema/base/own_environment.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace vgpu {

namespace {

constexpr int waiting_programs = 64;

struct unix_address {
  sockaddr_un where{};
  socklen_t bytes = 0;
};

/// Returns the address of a path, or of an abstract name, which begins with
/// NUL.
unix_address address_of(const std::string& name) {
  unix_address out;
  out.where.sun_family = AF_UNIX;
  std::memcpy(out.where.sun_path, name.data(),
              std::min(name.size(), sizeof(out.where.sun_path) - 1));
  out.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                     name.size() + (name[0] != '\0' ? 1 : 0));
  return out;
}

std::string abstract_name(const std::string& manager,
                          const std::string& transport) {
  return std::string(1, '\0') + client_socket_name(manager, transport);
}

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

/// Returns the name of this process's network namespace, in which the client
/// looks for its manager.
std::string own_network() {
  std::array<char, 64> name{};
  auto n = ::readlink("/proc/self/ns/net", name.data(), name.size());
  return {name.data(), n > 0 ? static_cast<std::size_t>(n) : 0};
}

/// Returns folders in which this user can make one that nobody else can take
/// first, and others. Where nobody set a variable, the others come last.
std::vector<std::string> folders() {
  std::vector<std::string> out;
  auto user = std::to_string(::geteuid());
  auto add = [&](const char* base, const char* name) {
    if (base != nullptr && *base == '/')
      out.push_back(std::string{base} + "/" + name);
  };
  add(setting("XDG_RUNTIME_DIR"), "vgpu-clients");
  add(("/run/user/" + user).c_str(), "vgpu-clients");
  add("/tmp", ("vgpu-" + user + "-clients").c_str());
  add(setting("HOME"), ".vgpu-clients");
  return out;
}

unique_fd listen_at(const std::string& name) {
  unique_fd out{
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  auto [where, bytes] = address_of(name);
  if (!out ||
      ::bind(out.get(), reinterpret_cast<const sockaddr*>(&where), bytes) !=
          0 ||
      ::listen(out.get(), waiting_programs) != 0)
    return unique_fd{};
  return out;
}

bool is_own(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

/// Connects without waiting for room in the listener's queue, unless the
/// listener is certainly of this user.
unique_fd connect_to(const std::string& name, bool waits) {
  unique_fd out{::socket(
      AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0)};
  auto [where, bytes] = address_of(name);
  if (!out)
    return out;
  // A signal handler of the program may interrupt the wait for a busy client.
  while (::connect(out.get(), reinterpret_cast<const sockaddr*>(&where),
                   bytes) != 0)
    if (errno != EINTR)
      return unique_fd{};
  if (!is_own(out.get()))
    return unique_fd{};
  if (!waits)
    ::fcntl(out.get(), F_SETFL, ::fcntl(out.get(), F_GETFL) & ~O_NONBLOCK);
  return out;
}

enum class taken { by_us, by_another, impossible };

/// Locks a file that exists as long as its lock is held.
taken lock_file(const std::string& path, unique_fd& lock) {
  for (;;) {
    lock = unique_fd{
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!lock)
      return taken::impossible;
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return errno == EWOULDBLOCK ? taken::by_another : taken::impossible;
    // The last holder may have removed the file meanwhile.
    struct stat ours = {};
    struct stat there = {};
    if (::fstat(lock.get(), &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
        ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
      return taken::by_us;
  }
}

std::string lock_of(const std::string& path) {
  return path + ".lock";
}

} // namespace

std::vector<std::string> client_socket_paths(const std::string& manager,
                                             const std::string& transport) {
  auto all = own_network() + " " + transport + " " + manager;
  std::array<char, 18> digits{};
  std::snprintf(
      digits.data(), digits.size(), "/%016llx",
      static_cast<unsigned long long>(XXH64(all.data(), all.size(), 0)));
  std::vector<std::string> out;
  for (auto& x : folders())
    if (x.size() + digits.size() <= sizeof(sockaddr_un{}.sun_path))
      out.push_back(x + digits.data());
  return out;
}

bool is_in_private_folder(const std::string& path) {
  struct stat what = {};
  return ::lstat(folder_of(path).c_str(), &what) == 0 &&
         S_ISDIR(what.st_mode) && what.st_uid == ::geteuid() &&
         (what.st_mode & 0077) == 0;
}

result<client_place> client_place::take(const std::string& manager,
                                        const std::string& transport) {
  client_place out;
  // A cluster makes this folder too, where it is missing.
  if (const auto* x = setting("XDG_RUNTIME_DIR"); x != nullptr && *x == '/')
    (void)::mkdir(x, 0700);
  for (auto& path : client_socket_paths(manager, transport)) {
    (void)::mkdir(folder_of(path).c_str(), 0700);
    if (!is_in_private_folder(path))
      continue;
    auto how = lock_file(lock_of(path), out.lock_);
    if (how == taken::by_another)
      return fault{fault_kind::refused, "another one listens at " + path};
    if (how == taken::impossible)
      continue;
    // A client that was killed leaves its socket.
    (void)::unlink(path.c_str());
    out.path_ = path;
    if (auto socket = listen_at(path); socket) {
      out.sockets_.push_back(std::move(socket));
      break;
    }
    out.path_.clear();
    (void)::unlink(lock_of(path).c_str());
  }
  // Programs that do not see the folder find the client by this name.
  if (auto socket = listen_at(abstract_name(manager, transport)); socket)
    out.sockets_.push_back(std::move(socket));
  if (out.sockets_.empty())
    return fault{fault_kind::refused,
                 "no folder of this user can hold a socket, and the name @" +
                     client_socket_name(manager, transport) + " is taken"};
  return out;
}

client_place::~client_place() {
  if (path_.empty() || !lock_)
    return;
  (void)::unlink(path_.c_str());
  (void)::unlink(lock_of(path_).c_str());
  (void)::rmdir(folder_of(path_).c_str());
}

unique_fd connect_to_client(const std::string& manager,
                            const std::string& transport) {
  for (auto& path : client_socket_paths(manager, transport))
    if (is_in_private_folder(path))
      if (auto out = connect_to(path, true); out)
        return out;
  return connect_to(abstract_name(manager, transport), false);
}

} // namespace vgpu
