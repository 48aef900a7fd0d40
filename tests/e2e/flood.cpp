// Somebody who wants to keep others out: many connections that say nothing,
// many messages without a hello, or many bytes that are no messages.
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
#include <sys/un.h>
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

int connect_local(const std::string& endpoint) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  endpoint.copy(where.sun_path, sizeof(where.sun_path) - 1, 6);
  auto fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 ||
      ::connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0)
    throw std::runtime_error{"cannot connect to " + endpoint};
  return fd;
}

int connect_to(const std::string& endpoint) {
  return endpoint.starts_with("ipc://") ? connect_local(endpoint)
                                        : connect_tcp(endpoint);
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
    all.push_back(connect_to(endpoint));
  std::puts("connected");
  std::fflush(stdout);
  for (auto fd : all)
    await_end(fd);
  std::puts("all ended");
  return 0;
}

/// Returns a message that a manager refuses, as it comes before a hello.
kj::Array<capnp::word> some_message() {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<vgpu::wire::Envelope>();
  root.setFrom("client/stranger-1");
  root.setRequest(1);
  root.initReport().setText("a flood");
  return capnp::messageToFlatArray(message);
}

/// Sends messages by ZeroMQ; with the key of a member where one is given.
int say_much(const std::string& endpoint, int count, const char* manager_key,
             const char* secret_key) {
  auto words = some_message();
  auto bytes = words.asBytes();
  zmq::context_t context;
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  if (manager_key != nullptr) {
    char public_key[41] = {};
    if (zmq_curve_public(public_key, secret_key) != 0)
      throw std::runtime_error{"this is no secret key"};
    socket.set(zmq::sockopt::curve_serverkey, manager_key);
    socket.set(zmq::sockopt::curve_publickey, public_key);
    socket.set(zmq::sockopt::curve_secretkey, secret_key);
  }
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

/// Sends as many frames without any handshake, by a new connection each time
/// that one is ended.
int pour(const std::string& endpoint, int count) {
  auto words = some_message();
  auto bytes = words.asBytes();
  auto connections = 1;
  auto fd = connect_to(endpoint);
  for (auto i = 0; i < count;) {
    auto sent = ::send(fd, bytes.begin(), bytes.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(bytes.size())) {
      ++i;
      continue;
    }
    ::close(fd);
    fd = connect_to(endpoint);
    // What was sent by a connection that ended counts, or this might never end.
    ++i;
    ++connections;
  }
  ::close(fd);
  std::printf("all sent, by %d connections\n", connections);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::string how = argc >= 4 ? argv[1] : "";
  try {
    if (how == "connections" && argc == 4)
      return say_nothing(argv[2], std::atoi(argv[3]));
    if (how == "frames" && argc == 4)
      return say_much(argv[2], std::atoi(argv[3]), nullptr, nullptr);
    if (how == "frames" && argc == 6)
      return say_much(argv[2], std::atoi(argv[3]), argv[4], argv[5]);
    if (how == "bytes" && argc == 4)
      return pour(argv[2], std::atoi(argv[3]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "flood: %s\n", e.what());
    return 1;
  }
  std::fprintf(stderr, "usage: flood connections|frames|bytes ENDPOINT COUNT\n"
                       "       flood frames ENDPOINT COUNT MANAGER-KEY "
                       "SECRET-KEY\n");
  return 2;
}
