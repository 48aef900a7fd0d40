#include "actors/lend/program_files.hpp"

#include "actors/link/unix_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>

namespace vgpu {

namespace {

/// Says how long the client may take to open a file.
constexpr std::chrono::milliseconds answers_within{5'000};

/// Says in a packet how opening a file went.
enum class outcome : std::uint64_t { opened, no_such_file, no_access };

bool is_same_file(int a, const struct stat& other) {
  struct stat x {};
  return ::fstat(a, &x) == 0 && x.st_dev == other.st_dev &&
         x.st_ino == other.st_ino;
}

fault not_the_program(std::uint32_t process) {
  return {fault_kind::usage,
          "process " + std::to_string(process) + " is not the program"};
}

outcome outcome_of(const fault& why) {
  return why.kind == fault_kind::usage ? outcome::no_such_file
                                       : outcome::no_access;
}

} // namespace

result<unique_fd> open_program_file(const program_file& what, int control_fd,
                                    std::initializer_list<pid_t> others) {
  auto pid = static_cast<pid_t>(what.process);
  if (pid <= 0 || std::ranges::count(others, pid) != 0)
    return not_the_program(what.process);
  // Whatever is opened in this directory belongs to that process, even if its
  // number is reused meanwhile.
  auto path = "/proc/" + std::to_string(pid) + "/fd";
  unique_fd of{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  struct stat control {};
  if (!of || ::fstatat(of.get(), std::to_string(what.control).c_str(), &control,
                       0) != 0)
    return fault{fault_kind::unsupported,
                 "no access to the program's files in " + path + " (" +
                     std::strerror(errno) +
                     "); run both as one user and in one PID namespace"};
  if (!is_same_file(control_fd, control))
    return not_the_program(what.process);
  // Devices and pipes are refused, because opening them has effects.
  struct stat kind {};
  auto name = std::to_string(what.file);
  if (::fstatat(of.get(), name.c_str(), &kind, 0) != 0 ||
      !S_ISREG(kind.st_mode))
    return fault{fault_kind::usage,
                 "descriptor " + name + " of the program is not a file"};
  unique_fd file{::openat(of.get(), name.c_str(), O_RDWR | O_CLOEXEC)};
  if (!file || !is_same_file(file.get(), kind))
    return fault{fault_kind::unsupported, "the program's file " + path + "/" +
                                              name + " cannot be opened"};
  return file;
}

result<unique_fd> ask_program_file(int socket, const program_file& what) {
  const std::array<std::uint64_t, 3> question{what.process, what.control,
                                              what.file};
  if (auto sent = send_packet(socket, question); !sent)
    return fault{fault_kind::unsupported,
                 "the session's client does not open files: " +
                     sent.why().what};
  pollfd item{socket, POLLIN, 0};
  (void)::poll(&item, 1, static_cast<int>(answers_within.count()));
  auto in = receive_packet(socket);
  if (!in || !*in || (*in)->closed || (*in)->words.size() != 1)
    return fault{fault_kind::unsupported,
                 "the session's client did not say whether it can open a "
                 "file of the program"};
  auto& answer = **in;
  if (answer.words[0] == static_cast<std::uint64_t>(outcome::opened) &&
      answer.descriptors.size() == 1)
    return std::move(answer.descriptors.front());
  if (answer.words[0] == static_cast<std::uint64_t>(outcome::no_such_file))
    return fault{fault_kind::usage, "the session's client found no such file "
                                    "of the program"};
  return fault{fault_kind::unsupported,
               "the session's client cannot open the program's file; run both "
               "as one user and in one PID namespace"};
}

bool answer_program_file(int socket, int control_fd, pid_t worker) {
  auto in = receive_packet(socket);
  if (!in)
    return false;
  if (!*in)
    return true;
  const auto& words = (*in)->words;
  if ((*in)->closed || words.size() != 3)
    return false;
  const program_file what{static_cast<std::uint32_t>(words[0]),
                          static_cast<std::uint32_t>(words[1]),
                          static_cast<std::uint32_t>(words[2])};
  auto file = open_program_file(what, control_fd, {::getpid(), worker});
  const auto how = static_cast<std::uint64_t>(file ? outcome::opened
                                                   : outcome_of(file.why()));
  const auto fd = file ? file->get() : -1;
  auto sent =
      send_packet(socket, {&how, 1},
                  file ? std::span<const int>{&fd, 1} : std::span<const int>{});
  return sent.ok();
}

} // namespace vgpu
