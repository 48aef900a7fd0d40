// A stranger who wants to keep others out: many connections that say nothing,
// or many messages without a hello.
#include "schema/wire/wire.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <zmq.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

int connect_tcp(const std::string& endpoint) {
  auto colon = endpoint.rfind(':');
  auto host = endpoint.substr(6, colon - 6);
  auto port = endpoint.substr(colon + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* where = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &where) != 0)
    throw std::runtime_error{"cannot find " + endpoint};
  auto fd = ::socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto connected =
      fd >= 0 && ::connect(fd, where->ai_addr, where->ai_addrlen) == 0;
  ::freeaddrinfo(where);
  if (!connected)
    throw std::runtime_error{"cannot connect to " + endpoint};
  return fd;
}

/// Waits until the other side has ended the connection.
void await_end(int fd) {
  char greeting[256];
  for (;;) {
    auto got = ::recv(fd, greeting, sizeof greeting, 0);
    if (got <= 0)
      return;
  }
}

int say_nothing(const std::string& endpoint, int count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<int> all;
  for (auto i = 0; i < count; ++i)
    all.push_back(connect_tcp(endpoint));
  std::puts("connected");
  std::fflush(stdout);
  for (auto fd : all)
    await_end(fd);
  std::puts("all ended");
  return 0;
}

int say_much(const std::string& endpoint, int count) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<vgpu::wire::Envelope>();
  root.setFrom("client/stranger-1");
  root.setRequest(1);
  root.initReport().setText("a flood");
  auto words = capnp::messageToFlatArray(message);
  auto bytes = words.asBytes();
  zmq::context_t context;
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  socket.connect(endpoint);
  for (auto i = 0; i < count; ++i)
    socket.send(zmq::buffer(bytes.begin(), bytes.size()),
                zmq::send_flags::none);
  // Closing waits until all of them are sent.
  socket.close();
  context.close();
  std::puts("all sent");
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::string how = argc == 4 ? argv[1] : "";
  try {
    if (how == "connections")
      return say_nothing(argv[2], std::atoi(argv[3]));
    if (how == "frames")
      return say_much(argv[2], std::atoi(argv[3]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "flood: %s\n", e.what());
    return 1;
  }
  std::fprintf(stderr, "usage: flood connections|frames tcp://HOST:PORT "
                       "COUNT\n");
  return 2;
}
