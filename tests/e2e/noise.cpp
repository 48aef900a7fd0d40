// Sends garbage to a socket: random bytes, random ZeroMQ frames, packets, and
// messages of ours with some bits changed. A seed makes it repeatable.
#include "schema/wire/data.capnp.h"
#include "schema/wire/guest.capnp.h"
#include "schema/wire/wire.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <zmq.hpp>

#include <netdb.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace vgpu;

using bytes = std::vector<char>;

class dice {
public:
  explicit dice(unsigned seed) : engine_(seed) {}

  std::size_t below(std::size_t bound) { return engine_() % bound; }

  bytes some(std::size_t size) {
    bytes out(size);
    for (auto& x : out)
      x = static_cast<char>(engine_());
    return out;
  }

  /// Returns random bytes: mostly few, and sometimes many.
  bytes some() {
    constexpr std::array<std::size_t, 6> limits{1, 9, 64, 500, 5'000, 300'000};
    return some(below(limits[below(limits.size())] + 1));
  }

private:
  std::mt19937 engine_;
};

// -- messages of ours, damaged ------------------------------------------------

bytes serialised(capnp::MessageBuilder& message) {
  auto words = capnp::messageToFlatArray(message);
  auto all = words.asChars();
  return {all.begin(), all.end()};
}

bytes some_envelope(dice& random) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::Envelope>();
  root.setFrom("node/zzz");
  root.setRequest(random.below(5));
  switch (random.below(8)) {
  case 0: {
    auto hello = root.initHello();
    hello.setOldest(static_cast<std::uint16_t>(random.below(3)));
    hello.setNewest(static_cast<std::uint16_t>(random.below(100)));
    hello.setSoftware("noise");
    break;
  }
  case 1: {
    auto node = root.initRegisterNode();
    node.setName("zzz");
    node.setHost("nowhere");
    auto pgpus = node.initPgpus(2);
    pgpus[0].setState("healthy");
    pgpus[1].setState(random.below(2) == 0 ? "lost" : "no such state");
    break;
  }
  case 2:
    root.initNodeBeat().setName("zzz");
    break;
  case 3:
    root.initSuspect().setSession(random.below(4));
    break;
  case 4:
    root.initCloseSession().setSession(random.below(4));
    break;
  case 5:
    root.initAdopt().setSession(random.below(4));
    break;
  case 6:
    root.initWorkerExited().setSession(random.below(4));
    break;
  case 7:
    root.initEventsRequest().setWaitMs(4'000'000'000);
    break;
  }
  return serialised(message);
}

bytes some_data_head(dice& random) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::DataHead>();
  root.setSession(random.below(4));
  root.setEpoch(random.below(4));
  switch (random.below(4)) {
  case 0:
    root.initAttach().setToken(random.below(100));
    break;
  case 1: {
    auto range = root.initCalls();
    range.setFrom(random.below(10'000));
    range.setTo(std::uint64_t{1} << random.below(64));
    break;
  }
  case 2:
    root.initKeepalive().setSent(std::uint64_t{1} << 60);
    break;
  case 3:
    root.setDetach();
    break;
  }
  return serialised(message);
}

bytes some_guest_hello(dice& random) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::GuestHello>();
  root.setResumed(random.below(2) == 0);
  root.initProgram().setName("noise");
  root.initSpecification().setGpus(static_cast<std::uint32_t>(
      random.below(2) == 0 ? 1 : random.below(4'000'000'000)));
  return serialised(message);
}

bytes damaged(bytes what, dice& random) {
  for (auto flips = random.below(4); flips > 0 && !what.empty(); --flips)
    what[random.below(what.size())] ^= static_cast<char>(1 << random.below(8));
  if (random.below(4) == 0)
    what.resize(random.below(what.size() + 1));
  return what;
}

// -- ZeroMQ -------------------------------------------------------------------

bytes some_frame(dice& random) {
  switch (random.below(3)) {
  case 0:
    return damaged(some_envelope(random), random);
  case 1:
    return damaged(some_data_head(random), random);
  default:
    return random.some();
  }
}

void send_frames(zmq::context_t& context, const std::string& endpoint,
                 dice& random) {
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  socket.set(zmq::sockopt::linger, 1'000);
  socket.set(zmq::sockopt::sndtimeo, 2'000);
  socket.set(zmq::sockopt::immediate, true);
  if (random.below(2) == 0) {
    auto name = random.some(1 + random.below(40));
    name[0] = 'x'; // names that begin with 0 are ZeroMQ's own
    socket.set(zmq::sockopt::routing_id,
               std::string_view{name.data(), name.size()});
  }
  socket.connect(endpoint);
  for (auto messages = 1 + random.below(20); messages > 0; --messages) {
    for (auto frames = 1 + random.below(4); frames > 0; --frames) {
      auto frame = some_frame(random);
      auto flags =
          frames > 1 ? zmq::send_flags::sndmore : zmq::send_flags::none;
      if (!socket.send(zmq::buffer(frame), flags))
        return; // The peer does not accept it any more.
    }
  }
}

/// Sends a frame that is larger than any of ours.
void send_too_much(zmq::context_t& context, const std::string& endpoint) {
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  socket.set(zmq::sockopt::linger, 500);
  socket.set(zmq::sockopt::sndtimeo, 2'000);
  socket.connect(endpoint);
  (void)socket.send(zmq::message_t{std::size_t{20} << 20},
                    zmq::send_flags::none);
}

// -- plain streams ------------------------------------------------------------

class descriptor {
public:
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  int get() const { return fd_; }

private:
  int fd_;
};

int connect_tcp(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
    return -1;
  auto fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    ::close(fd);
    fd = -1;
  }
  ::freeaddrinfo(found);
  return fd;
}

/// Connects to a Unix socket. An abstract name begins with a NUL.
int connect_unix(const std::string& name, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() >= sizeof(address.sun_path))
    return -1;
  name.copy(address.sun_path, name.size());
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                     name.size() + (name[0] == '\0' ? 0 : 1));
  auto fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd >= 0 &&
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    ::close(fd);
    fd = -1;
  }
  return fd;
}

int connect_stream(const std::string& endpoint) {
  if (endpoint.starts_with("ipc://"))
    return connect_unix(endpoint.substr(6), SOCK_STREAM);
  auto colon = endpoint.rfind(':');
  return connect_tcp(endpoint.substr(6, colon - 6), endpoint.substr(colon + 1));
}

void write_all(int fd, const bytes& what) {
  (void)::send(fd, what.data(), what.size(), MSG_NOSIGNAL);
}

/// Returns ZMTP 3.1's greeting with the NULL mechanism, and a dealer's READY.
bytes zmtp_beginning(bool with_ready) {
  std::string out("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16);
  out.resize(64, '\0');
  if (with_ready)
    out += std::string("\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
                       "DEALER",
                       30);
  return {out.begin(), out.end()};
}

void speak_stream(const std::string& endpoint, dice& random) {
  descriptor fd{connect_stream(endpoint)};
  if (fd.get() < 0)
    throw std::runtime_error{"cannot connect to " + endpoint};
  auto how = random.below(4);
  if (how >= 2)
    write_all(fd.get(), zmtp_beginning(how == 3));
  if (how >= 1)
    for (auto parts = random.below(5); parts > 0; --parts)
      write_all(fd.get(), random.some());
}

// -- packets ------------------------------------------------------------------

/// Makes a file in memory of random size with random contents, in place of a
/// guest's.
int some_file(dice& random) {
  auto fd = ::memfd_create("noise", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  auto content = random.some();
  (void)!::write(fd, content.data(), content.size());
  if (random.below(2) == 0)
    (void)!::ftruncate(fd, static_cast<off_t>(random.below(1u << 30)));
  return fd;
}

void send_packet(int to, bytes what, std::size_t files, dice& random) {
  iovec part{what.data(), what.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  std::vector<int> fds;
  for (; files > 0; --files)
    fds.push_back(some_file(random));
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    auto* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  (void)::sendmsg(to, &header, MSG_NOSIGNAL);
  for (auto fd : fds)
    ::close(fd);
}

void speak_packets(const std::string& name, dice& random) {
  descriptor fd{connect_unix('\0' + name, SOCK_SEQPACKET)};
  if (fd.get() < 0)
    throw std::runtime_error{"cannot connect to @" + name};
  timeval patience{0, 200'000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  for (auto packets = random.below(4); packets > 0; --packets) {
    auto what = random.below(2) == 0 ? damaged(some_guest_hello(random), random)
                                     : random.some(random.below(20'000));
    // A guest sends eleven files.
    auto files = random.below(2) == 0 ? 11 : random.below(16);
    send_packet(fd.get(), std::move(what), files, random);
    if (random.below(4) == 0) {
      std::array<char, 256> answer;
      (void)::recv(fd.get(), answer.data(), answer.size(), 0);
    }
  }
}

int speak(const std::string& where, unsigned seed, int times) {
  zmq::context_t context;
  for (auto i = 0; i < times; ++i) {
    dice random{seed + static_cast<unsigned>(i)};
    if (where.starts_with('@')) {
      speak_packets(where.substr(1), random);
      continue;
    }
    speak_stream(where, random);
    send_frames(context, where, random);
    if (i == 0)
      send_too_much(context, where);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: noise tcp://HOST:PORT|ipc://PATH|@ABSTRACT "
                         "SEED TIMES\n");
    return 2;
  }
  try {
    return speak(argv[1], static_cast<unsigned>(std::atoi(argv[2])),
                 std::atoi(argv[3]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "noise: %s\n", e.what());
    return 1;
  }
}
