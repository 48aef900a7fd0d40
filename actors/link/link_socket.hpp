// The ZeroMQ socket of a link and its monitor: frames in and out, and which
// peer a lost connection belonged to. Knows nothing of actors.
#pragma once

#include "actors/link/frames.hpp"
#include "actors/link/link.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

namespace vgpu {

/// Owns the sockets. Belongs to one thread at a time.
class link_socket {
public:
  /// Opens, then binds or begins to connect. Throws zmq::error_t.
  link_socket(zmq::context_t& zmq, const link_options& options);

  link_socket(const link_socket&) = delete;
  link_socket& operator=(const link_socket&) = delete;
  ~link_socket();

  /// Where it listens or connects to.
  std::string endpoint() const;
  /// Of link_options::second_port; else 0.
  std::uint16_t second_port() const noexcept { return second_port_; }
  /// Whether whoever is at the other end is on this host for certain.
  bool within_host() const noexcept { return is_loopback(endpoint_); }
  static bool is_loopback(std::string_view endpoint) noexcept {
    return endpoint.starts_with("tcp://127.");
  }

  /// Adds what an owner that sleeps on more than this socket must watch: two
  /// descriptors. The first becomes readable when there may be messages, the
  /// second when connections changed. Only where nothing is overlooked().
  void add_to(std::vector<pollfd>& items);

  /// Whether there are messages of which no descriptor tells any more: sending
  /// takes note of what came. Never after receive() found nothing.
  bool overlooked();

  /// Whether there are messages, of which no descriptor tells from then on.
  bool has_messages();

  /// Sleeps until the socket, its monitor or `bell` (a file descriptor) has
  /// something; returns at once when `wait` is false. The result tells
  /// whether the bell rings.
  bool sleep(int bell, bool wait);

  /// The next message, or null when there is none. What has no or too many
  /// frames is dropped and logged.
  parcel_ptr receive();

  enum class sent { yes, gone, full };
  /// Never blocks.
  sent send(dispatch& out);

  /// What happened to connections since the last call. For a connecting
  /// socket, `up` comes before any message of that connection.
  std::vector<link_event> connection_changes();

private:
  void bind_second(unsigned io_thread);
  bool receive_frames(zmq::message_t& peer, zmq::message_t& head,
                      zmq::message_t& bulk);
  void remember(const std::string& peer, int fd);
  void on_disconnect(int fd, std::vector<link_event>& out);

  bool binds_;
  std::string name_;
  std::string endpoint_;
  std::uint16_t second_port_ = 0;
  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  // Of a bound socket: the peer on each descriptor. A descriptor may be
  // reused before the end of its former connection is reported.
  std::map<int, std::string> peer_on_;
  std::map<int, unsigned> stale_ends_;
  std::vector<link_event> found_;
  bool drained_ = false; // receive() found nothing, and nothing was done since
};

} // namespace vgpu
