#include "actors/link/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace vgpu {

namespace {

constexpr std::size_t largest_packet = 64 << 10;
/// Gives the largest number of parts of a shared object, plus one for its
/// ledger entry.
constexpr std::size_t most_descriptors = 65;

fault from_errno(const std::string& what) {
  return {fault_kind::system, what + ": " + std::strerror(errno)};
}

result<std::pair<sockaddr_un, socklen_t>> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path))
    return fault{fault_kind::usage,
                 "a socket name must have 1 to 107 bytes: '" + name + "'"};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return std::pair{address, static_cast<socklen_t>(length)};
}

std::optional<ucred> credentials(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return std::nullopt;
  return peer;
}

bool is_ours(int socket) {
  auto peer = credentials(socket);
  return peer && (peer->uid == ::geteuid() || peer->uid == 0);
}

unique_fd make_socket() {
  return unique_fd{
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

} // namespace

result<unique_fd> listen_abstract(const std::string& name) {
  auto address = address_of(name);
  if (!address)
    return address.why();
  auto socket = make_socket();
  auto& [where, length] = *address;
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&where), length) != 0 ||
      ::listen(socket.get(), 64) != 0)
    return from_errno("cannot listen on the Unix socket @" + name);
  return socket;
}

unique_fd accept_own(int listener) {
  unique_fd socket{
      ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (socket && !is_ours(socket.get()))
    return unique_fd{};
  return socket;
}

result<unique_fd> connect_abstract(const std::string& name) {
  auto address = address_of(name);
  if (!address)
    return address.why();
  auto socket = make_socket();
  auto& [where, length] = *address;
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&where),
                           length) != 0) {
    auto code = socket ? errno : 0;
    auto why = from_errno("cannot connect to the Unix socket @" + name);
    if (code == ECONNREFUSED)
      why.kind = fault_kind::missing;
    if (code == EAGAIN)
      why.kind = fault_kind::not_ready;
    return why;
  }
  if (!is_ours(socket.get()))
    return fault{fault_kind::refused,
                 "the Unix socket @" + name + " belongs to another user"};
  return socket;
}

pid_t peer_of(int socket) {
  auto peer = credentials(socket);
  return peer ? peer->pid : 0;
}

status send_packet(int socket, std::span<const std::uint64_t> words,
                   std::span<const int> descriptors) {
  if (words.size_bytes() > largest_packet ||
      descriptors.size() > most_descriptors)
    return fault{fault_kind::usage, "a packet is too large"};
  iovec bytes{const_cast<std::uint64_t*>(words.data()), words.size_bytes()};
  alignas(cmsghdr)
      std::byte control[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    auto* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
    return from_errno("cannot send on a Unix socket");
  return {};
}

result<std::optional<packet>> receive_packet(int socket) {
  packet in;
  // The buffer is on the stack and not zeroed, because mostly there is nothing
  // to receive.
  alignas(std::uint64_t) std::byte room[largest_packet];
  iovec bytes{room, largest_packet};
  alignas(cmsghdr)
      std::byte control[CMSG_SPACE(most_descriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  auto got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
      return std::optional<packet>{};
    in.closed = true;
    return std::optional{std::move(in)};
  }
  for (auto* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    auto count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      in.descriptors.emplace_back(fd);
    }
  }
  if (got == 0 && in.descriptors.empty()) {
    in.closed = true;
    return std::optional{std::move(in)};
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      got % sizeof(std::uint64_t) != 0)
    return fault{fault_kind::corrupt,
                 "a packet on a Unix socket is cut or of a strange size"};
  auto count = static_cast<std::size_t>(got) / sizeof(std::uint64_t);
  in.words.resize(count);
  if (count != 0)
    std::memcpy(in.words.data(), room, count * sizeof(std::uint64_t));
  return std::optional{std::move(in)};
}

} // namespace vgpu
