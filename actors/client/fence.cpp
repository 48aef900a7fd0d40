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
  unique_fd process{
      static_cast<int>(::syscall(SYS_pidfd_open, static_cast<long>(pid), 0u))};
  if (!process && errno == ESRCH)
    return {}; // died in between
  if (!process)
    return fault{fault_kind::system,
                 "cannot watch the former worker, process " +
                     std::to_string(pid) + ": " + std::strerror(errno)};
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0u) !=
          0 &&
      errno != ESRCH)
    return fault{fault_kind::system, "cannot end the former worker, process " +
                                         std::to_string(pid) + ": " +
                                         std::strerror(errno)};
  pollfd item{process.get(), POLLIN, 0};
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
