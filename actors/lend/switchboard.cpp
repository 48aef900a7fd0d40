#include "actors/lend/switchboard.hpp"

#include "actors/link/log.hpp"
#include "actors/link/unix_socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace vgpu {

namespace {

// A question is the name of a socket, in words that end with zeros. An answer
// is one word, with a connection if it says so.
enum class connection_answer : std::uint64_t {
  connected,
  missing,
  not_ready,
  refused
};

/// Bounds a name, in bytes: what an address of a Unix socket has room for.
constexpr std::size_t most_name = 107;
constexpr std::size_t word = sizeof(std::uint64_t);

/// Says how long a node may take to answer.
constexpr std::chrono::milliseconds node_answers_within{5'000};

std::vector<std::uint64_t> words_of(const std::string& name) {
  std::vector<std::uint64_t> out((name.size() + word - 1) / word);
  std::memcpy(out.data(), name.data(), name.size());
  return out;
}

/// Returns the name in a question, or nothing where it is no name at which
/// workers serve one another.
std::optional<std::string> name_in(std::span<const std::uint64_t> question) {
  if (question.empty() || question.size_bytes() > most_name + word)
    return std::nullopt;
  std::string out(question.size_bytes(), '\0');
  std::memcpy(out.data(), question.data(), out.size());
  out.resize(out.find_last_not_of('\0') + 1);
  auto may_be = [&](std::string_view prefix) {
    constexpr std::string_view letters = "0123456789abcdef-";
    return out.starts_with(prefix) && out.size() > prefix.size() &&
           out.find_first_not_of(letters, prefix.size()) == out.npos;
  };
  if (out.size() > most_name ||
      (!may_be(broker_socket_prefix) && !may_be(desk_socket_prefix)))
    return std::nullopt;
  return out;
}

connection_answer answer_to(const fault& why) {
  return why.kind == fault_kind::missing     ? connection_answer::missing
         : why.kind == fault_kind::not_ready ? connection_answer::not_ready
                                             : connection_answer::refused;
}

fault fault_of(std::uint64_t answer, const std::string& name) {
  auto of = "the Unix socket @" + name;
  switch (static_cast<connection_answer>(answer)) {
  case connection_answer::missing:
    return {fault_kind::missing, "nobody listens on " + of};
  case connection_answer::not_ready:
    return {fault_kind::not_ready, "too many wait at " + of};
  default:
    return {fault_kind::refused, "the node does not connect to " + of};
  }
}

result<unique_fd> ask_node(int line, const std::string& name) {
  fault lost{fault_kind::lost,
             "the node does not answer to whom it connects this worker"};
  if (name.empty() || name.size() > most_name)
    return fault{fault_kind::usage,
                 "a socket name must have 1 to 107 bytes: '" + name + "'"};
  if (!send_packet(line, words_of(name)))
    return lost;
  pollfd item{line, POLLIN, 0};
  auto until = std::chrono::steady_clock::now() + node_answers_within;
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return lost;
    (void)::poll(&item, 1, static_cast<int>(left.count()));
    auto in = receive_packet(line);
    if (in && !*in)
      continue;
    if (!in || (*in)->closed || (*in)->words.size() != 1)
      return lost;
    auto& answer = **in;
    if (answer.words[0] ==
            static_cast<std::uint64_t>(connection_answer::connected) &&
        answer.descriptors.size() == 1)
      return std::move(answer.descriptors.front());
    return fault_of(answer.words[0], name);
  }
}

} // namespace

worker_connector connector_over(unique_fd line) {
  return [line = std::make_shared<unique_fd>(std::move(line))](
             const std::string& name) -> result<unique_fd> {
    if (!*line)
      return fault{fault_kind::lost, "the line to the node has ended"};
    auto out = ask_node(line->get(), name);
    // A late answer would be taken for that to the next question.
    if (!out && out.why().kind == fault_kind::lost)
      *line = unique_fd{};
    return out;
  };
}

bool answer_line(int line) {
  auto in = receive_packet(line);
  if (in && !*in)
    return true;
  if (!in || (*in)->closed || !(*in)->descriptors.empty())
    return false;
  auto name = name_in((*in)->words);
  auto made = name ? connect_abstract(*name)
                   : fault{fault_kind::refused, "no worker serves there"};
  const auto how = static_cast<std::uint64_t>(
      made ? connection_answer::connected : answer_to(made.why()));
  const auto fd = made ? made->get() : -1;
  auto sent =
      send_packet(line, {&how, 1},
                  made ? std::span<const int>{&fd, 1} : std::span<const int>{});
  return sent.ok();
}

switchboard::switchboard() : thread_([this] { run(); }) {}

switchboard::~switchboard() {
  {
    std::lock_guard guard{mutex_};
    over_ = true;
  }
  changed_.ring();
  thread_.join();
}

result<unique_fd> switchboard::open_line() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   ends.data()) != 0)
    return fault{fault_kind::system,
                 std::string{"socketpair: "} + std::strerror(errno)};
  unique_fd of_worker{ends[0]};
  {
    std::lock_guard guard{mutex_};
    opened_.emplace_back(ends[1]);
  }
  changed_.ring();
  return of_worker;
}

void switchboard::run() {
  std::vector<unique_fd> lines;
  std::vector<pollfd> all;
  for (;;) {
    all.assign({{changed_.fd(), POLLIN, 0}});
    for (auto& x : lines)
      all.push_back({x.get(), POLLIN, 0});
    if (::poll(all.data(), all.size(), -1) < 0)
      continue;
    std::size_t at = 0;
    std::erase_if(lines, [&](auto& x) {
      return all[++at].revents != 0 && !answer_line(x.get());
    });
    if (all.front().revents == 0)
      continue;
    changed_.silence();
    std::lock_guard guard{mutex_};
    if (over_)
      return;
    for (auto& x : opened_)
      lines.push_back(std::move(x));
    opened_.clear();
  }
}

} // namespace vgpu
