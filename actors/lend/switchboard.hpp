// How the workers of a host reach one another: by way of their node.
//
//   worker of B ── line: name of a socket ──► switchboard of B's node
//               ◄──────── a connection ──────      │ connects
//                                                  ▼
//                                          worker of A, at its socket
//
// A sandboxed worker can connect to no abstract socket by itself, because
// workers of other sessions, clients and services of the host listen there. Its
// node connects it to sockets at which workers serve one another, and to no
// others.
#pragma once

#include "actors/link/doorbell.hpp"
#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace vgpu {

/// Begin the names of sockets at which workers serve one another: the brokers
/// of what a session shares, and the desks of prepared workers.
inline constexpr std::string_view broker_socket_prefix = "vgpu-share-";
inline constexpr std::string_view desk_socket_prefix = "vgpu-next-";

/// Connects to an abstract socket of this host, whose name has no leading NUL.
/// The faults are those of connect_abstract().
using worker_connector =
    std::function<result<unique_fd>(const std::string& name)>;

/// Returns a connector that asks a switchboard over this line. It waits up to
/// five seconds for the answer, and fails as `lost` where the node does not
/// answer. One thread at a time may call it.
worker_connector connector_over(unique_fd line);

/// Connects the workers of a node to other workers, on a thread of its own that
/// waits for nobody. A line has one question at a time: until the answer is
/// sent, further ones wait in the kernel. Thread-safe.
class switchboard {
public:
  /// Throws std::system_error when the process has no descriptor left.
  switchboard();
  /// Ends all lines.
  ~switchboard();
  switchboard(const switchboard&) = delete;
  switchboard& operator=(const switchboard&) = delete;

  /// Returns a worker's end of a new line. The line ends when the worker's end
  /// is closed, or with the first message that is no question.
  result<unique_fd> open_line();

private:
  void run();

  doorbell changed_;
  std::mutex mutex_; // guards the next members
  bool over_ = false;
  std::vector<unique_fd> opened_; // the thread has not seen them
  /// Comes last, because the thread uses the other members.
  std::thread thread_;
};

/// Answers one question at a line, if there is one. Returns false where the
/// worker has closed its end or asks nonsense, so that the line ends.
bool answer_line(int line);

} // namespace vgpu
