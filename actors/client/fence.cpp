#include "actors/client/fence.hpp"

#include "actors/link/unix_socket.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace vgpu {

namespace {

/// A worker that stands still takes no connections, and there is room for so
/// many: also then it is there. Nobody tells when there is room again.
result<unique_fd> connect_within(const std::string& name,
                                 std::chrono::milliseconds patience) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds between{10};
  auto until = clock::now() + patience;
  for (;;) {
    auto connection = connect_abstract(name);
    if (connection || connection.why().code != CUDA_ERROR_NOT_READY ||
        clock::now() >= until)
      return connection;
    std::this_thread::sleep_for(between);
  }
}

} // namespace

status end_worker(const std::string& guest_socket,
                  std::chrono::milliseconds patience) {
  if (guest_socket.empty())
    return {};
  auto connection = connect_within(guest_socket, patience);
  if (!connection && connection.why().code == CUDA_ERROR_NOT_FOUND)
    return {}; // nobody listens: its process is gone
  if (!connection)
    return fault{CUDA_ERROR_OPERATING_SYSTEM,
                 "it cannot be told whether the former worker is gone: " +
                     connection.why().what};
  auto pid = peer_of(connection->get());
  unique_fd process{
      static_cast<int>(::syscall(SYS_pidfd_open, static_cast<long>(pid), 0u))};
  if (!process && errno == ESRCH)
    return {}; // died in between
  if (!process)
    return fault{CUDA_ERROR_OPERATING_SYSTEM,
                 "cannot watch the former worker, process " +
                     std::to_string(pid) + ": " + std::strerror(errno)};
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0u) !=
          0 &&
      errno != ESRCH)
    return fault{CUDA_ERROR_OPERATING_SYSTEM,
                 "cannot end the former worker, process " +
                     std::to_string(pid) + ": " + std::strerror(errno)};
  pollfd item{process.get(), POLLIN, 0};
  if (::poll(&item, 1, static_cast<int>(patience.count())) != 1)
    return fault{CUDA_ERROR_OPERATING_SYSTEM, "the former worker, process " +
                                                  std::to_string(pid) +
                                                  ", does not die"};
  return {};
}

} // namespace vgpu
