#include "actors/client/fence.hpp"

#include "actors/link/printable.hpp"
#include "actors/link/unix_socket.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

namespace vgpu {

namespace {

/// Connects to a worker. A worker that stands still accepts no connections, and
/// its queue may be full, but it is alive. Nothing signals when there is room
/// again, so this polls.
result<unique_fd> connect_within(const std::string& name,
                                 std::chrono::milliseconds patience) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds between{10};
  auto until = clock::now() + patience;
  for (;;) {
    auto connection = connect_abstract(name);
    if (connection || connection.why().kind != fault_kind::not_ready ||
        clock::now() >= until)
      return connection;
    std::this_thread::sleep_for(between);
  }
}

/// Returns whether the connection's other end is gone.
bool is_closed(int connection) {
  pollfd item{connection, 0, 0};
  return ::poll(&item, 1, 0) == 1 && (item.revents & POLLHUP) != 0;
}

/// Opens the process that listens at the other end of a connection. The result
/// is empty where it is dead.
///
/// Its number may have passed to another process before it was opened. But then
/// the listener was dead, and with it the connection.
result<unique_fd> open_listener(int connection, pid_t pid) {
  unique_fd process{
      static_cast<int>(::syscall(SYS_pidfd_open, static_cast<long>(pid), 0u))};
  auto code = errno;
  if (is_closed(connection) || (!process && code == ESRCH))
    return unique_fd{};
  if (!process)
    return fault{fault_kind::system,
                 "cannot watch the former worker, process " +
                     std::to_string(pid) + ": " + std::strerror(code)};
  return process;
}

/// Returns whether this process calls itself a worker, at a worker's socket. A
/// process cannot be made to do so by whoever makes a lease.
bool is_worker(pid_t pid, const std::string& guest_socket) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/comm"};
  std::string name;
  std::getline(file, name);
  return name == "vgpu-worker" && guest_socket.starts_with("vgpu-worker-");
}

} // namespace

status end_worker(const std::string& guest_socket,
                  std::chrono::milliseconds patience) {
  if (guest_socket.empty())
    return {};
  auto connection = connect_within(guest_socket, patience);
  if (!connection && connection.why().kind == fault_kind::missing)
    return {}; // nobody listens: its process is gone
  if (!connection)
    return fault{fault_kind::system,
                 "cannot find out whether the former worker is dead: " +
                     connection.why().what};
  auto pid = peer_of(connection->get());
  auto process = open_listener(connection->get(), pid);
  if (!process)
    return process.why();
  if (!*process)
    return {}; // died in between
  if (!is_worker(pid, guest_socket))
    return is_closed(connection->get())
               ? status{}
               : fault{fault_kind::refused,
                       "the former lease names the socket @" +
                           printable(guest_socket) + " of process " +
                           std::to_string(pid) +
                           ", which is no worker: it is not ended"};
  if (::syscall(SYS_pidfd_send_signal, process->get(), SIGKILL, nullptr, 0u) !=
          0 &&
      errno != ESRCH)
    return fault{fault_kind::system, "cannot end the former worker, process " +
                                         std::to_string(pid) + ": " +
                                         std::strerror(errno)};
  pollfd item{process->get(), POLLIN, 0};
  if (::poll(&item, 1, static_cast<int>(patience.count())) != 1)
    return fault{fault_kind::system, "the former worker, process " +
                                         std::to_string(pid) +
                                         ", does not die"};
  return {};
}

status worker_fence::pass(const std::optional<control::lease>& former,
                          epoch next) const {
  constexpr std::chrono::milliseconds dies_within{5'000};
  if (!former || former->epoch == next)
    return {};
  // Freeing its memory may take it any time.
  if (released_ == former->epoch)
    return {};
  if (former->worker.host == host_)
    return end_worker(former->worker.guest_socket, dies_within);
  // Workers after the released one got no calls.
  if (released_)
    return {};
  // A former client's last message is unknown.
  auto last =
      last_contact_ == clock::time_point{} ? clock::now() : last_contact_;
  // Only time ends this wait.
  std::this_thread::sleep_until(last + lease_term_ + margin);
  return {};
}

} // namespace vgpu
