#include "actors/fence.hpp"

#include "actors/unix_socket.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace vgpu {

status end_worker(const std::string& guest_socket,
                  std::chrono::milliseconds patience) {
  if (guest_socket.empty())
    return {};
  auto connection = connect_abstract(guest_socket);
  if (!connection)
    return {}; // nobody listens: its process is gone
  auto pid = peer_of(connection->get());
  unique_fd process{
      static_cast<int>(::syscall(SYS_pidfd_open, static_cast<long>(pid), 0u))};
  if (!process)
    return {}; // died in between
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
