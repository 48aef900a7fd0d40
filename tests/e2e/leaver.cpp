// A client that ends when a program connects: it accepts one connection, reads
// the program's message, and ends without an answer, so many times.
//
//   leaver TIMES
#include "schema/base/endpoints.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  const auto* manager = std::getenv("VGPU_MANAGER");
  if (argc != 2 || manager == nullptr) {
    std::fprintf(stderr, "usage: VGPU_MANAGER=... leaver TIMES\n");
    return 2;
  }
  auto listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto name = vgpu::client_socket_name(manager, vgpu::chosen_transport());
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), bytes) !=
          0 ||
      ::listen(listener, 8) != 0) {
    std::perror("leaver");
    return 1;
  }
  std::printf("listens\n");
  std::fflush(stdout);
  for (auto i = 0; i < std::atoi(argv[1]); ++i) {
    auto program = ::accept(listener, nullptr, nullptr);
    char byte = 0;
    if (program < 0 || ::recv(program, &byte, 1, 0) <= 0)
      return 1;
    ::close(program);
  }
  return 0;
}
