// Sends packets to those who answer at Unix sockets: a worker's broker of
// shared memory, a session's client that opens files, and a node that connects
// workers. Answers a worker as a client that lies.
#include "actors/lend/program_files.hpp"
#include "actors/lend/share_broker.hpp"
#include "actors/lend/switchboard.hpp"
#include "actors/link/log.hpp"
#include "fuzz_target.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace vgpu;

namespace {

/// Stands in the corpus for the half of the secret that is the socket's name.
/// Each process has a name of its own.
constexpr std::uint64_t any_name = 0x5eced;
const share_secret the_secret{1, static_cast<std::uint64_t>(::getpid())};

struct both_ends {
  unique_fd here, there;
  both_ends() {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                     both) != 0)
      std::abort();
    here = unique_fd{both[0]};
    there = unique_fd{both[1]};
  }
};

/// Sends any number of bytes, with some descriptors.
void send_any(int socket, std::span<const std::uint8_t> bytes,
              std::size_t descriptors) {
  std::vector<int> some(descriptors, socket);
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  if (!words.empty())
    std::memcpy(words.data(), bytes.data(), words.size() * sizeof(words[0]));
  std::replace(words.begin(), words.end(), any_name, the_secret.low);
  if (bytes.size() % sizeof(std::uint64_t) != 0 && descriptors == 0)
    (void)::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  else
    (void)send_packet(socket, words, some);
}

/// Asks a broker that lends one object. Its answer to those who do not know the
/// secret has no descriptor.
void ask_broker(std::span<const std::uint8_t> bytes, std::size_t descriptors) {
  static const auto broker = [] {
    auto out = std::move(*share_broker::open(the_secret));
    device::shared_object object;
    object.words = {1, 2};
    object.descriptors.push_back(
        std::make_shared<const unique_fd>(::open("/dev/null", O_RDONLY)));
    (void)out->lend({share_kind::memory, 7}, 9, object);
    return out;
  }();
  auto socket = connect_abstract(share_socket_name(the_secret));
  if (!socket)
    return;
  send_any(socket->get(), bytes, descriptors);
  ::shutdown(socket->get(), SHUT_WR);
  pollfd one{socket->get(), POLLIN, 0};
  (void)::poll(&one, 1, -1);
  auto got = receive_packet(socket->get());
  constexpr std::size_t question_words = 6;
  if (got && *got && !(*got)->descriptors.empty() &&
      bytes.size() != question_words * sizeof(std::uint64_t))
    std::abort();
}

/// Asks the client that opens files. No process of this number has the control
/// area open, so none of its files may be opened.
void ask_client(std::span<const std::uint8_t> bytes, std::size_t descriptors) {
  both_ends ends;
  static const unique_fd control{::memfd_create("control", MFD_CLOEXEC)};
  send_any(ends.here.get(), bytes, descriptors);
  (void)answer_program_file(ends.there.get(), control.get(), ::getpid());
  auto got = receive_packet(ends.here.get());
  if (got && *got && !(*got)->descriptors.empty())
    std::abort();
}

void hear_client(std::span<const std::uint8_t> bytes, std::size_t descriptors) {
  both_ends ends;
  send_any(ends.there.get(), bytes, descriptors);
  ::shutdown(ends.there.get(), SHUT_WR);
  auto file = ask_program_file(ends.here.get(), {1, 2, 3});
  if (file && descriptors == 0)
    std::abort();
}

/// Asks a node for a connection. It connects to sockets of brokers and desks
/// alone.
void ask_node(std::span<const std::uint8_t> bytes, std::size_t descriptors) {
  both_ends ends;
  send_any(ends.here.get(), bytes, descriptors);
  (void)answer_line(ends.there.get());
  auto got = receive_packet(ends.here.get());
  std::string_view name{reinterpret_cast<const char*>(bytes.data()),
                        bytes.size()};
  if (got && *got && !(*got)->descriptors.empty() &&
      !name.starts_with(broker_socket_prefix) &&
      !name.starts_with(desk_socket_prefix))
    std::abort();
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spdlog::set_level(spdlog::level::off);
  if (size < 2)
    return 0;
  std::span bytes{data + 2, size - 2};
  auto descriptors = data[1] % std::size_t{4};
  switch (data[0] % 4) {
  case 0:
    ask_broker(bytes, descriptors);
    break;
  case 1:
    ask_client(bytes, descriptors);
    break;
  case 2:
    ask_node(bytes, descriptors);
    break;
  default:
    hear_client(bytes, descriptors);
    break;
  }
  return 0;
}
