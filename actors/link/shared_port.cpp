#include "actors/link/shared_port.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

namespace vgpu {

namespace {

fault failed(const char* what) {
  return {fault_kind::system, std::string{"cannot listen twice at a port ("} +
                                  what + "): " + std::strerror(errno)};
}

} // namespace

result<unique_fd> listen_beside(int listening) {
  const auto yes = 1;
  sockaddr_storage where = {};
  socklen_t size = sizeof(where);
  auto* address = reinterpret_cast<sockaddr*>(&where);
  // Each of the sockets must permit it. The first may do so late.
  if (::getsockname(listening, address, &size) != 0 ||
      ::setsockopt(listening, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes)) != 0)
    return failed("the first");
  unique_fd out{::socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!out ||
      ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) !=
          0 ||
      ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes)) != 0)
    return failed("the second");
  // An IPv6 socket also takes IPv4 connections where the first one does.
  if (where.ss_family == AF_INET6) {
    auto only = 0;
    socklen_t width = sizeof(only);
    if (::getsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &only, &width) !=
            0 ||
        ::setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, width) != 0)
      return failed("IPv6");
  }
  if (::bind(out.get(), address, size) != 0 ||
      ::listen(out.get(), SOMAXCONN) != 0)
    return failed("bind");
  return out;
}

} // namespace vgpu
