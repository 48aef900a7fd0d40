// The ZeroMQ socket of a link and its monitor. Its subject is frames in and
// out, and the peer of each lost connection. It knows nothing of actors.
#pragma once

#include "actors/link/frames.hpp"
#include "actors/link/keyed_connections.hpp"
#include "actors/link/link.hpp"
#include "actors/link/log_limit.hpp"
#include "actors/link/silent_connections.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

namespace vgpu {

/// Owns the sockets. Not thread-safe: it belongs to one thread at a time.
class link_socket {
public:
  /// Says whether peers of a bound socket begin with a message.
  enum class peers { greet, may_be_silent };

  /// Opens the socket, then binds it or begins to connect. Throws zmq::error_t.
  /// A bound socket ends the connections of peers that should greet and do not.
  link_socket(zmq::context_t& zmq, const link_options& options,
              peers expected = peers::may_be_silent);

  link_socket(const link_socket&) = delete;
  link_socket& operator=(const link_socket&) = delete;
  ~link_socket();

  /// Returns the endpoint at which it listens or to which it connects.
  std::string endpoint() const;
  /// Returns the port of link_options::second_port, or 0.
  std::uint16_t second_port() const noexcept { return second_port_; }
  /// Returns whether the second port is a sealed one, for which
  /// offer_sealed() has tickets. second_port() is 0 then.
  bool has_sealed_port() const noexcept { return sealed_port_ != 0; }
  /// Offers one peer a sealed connection. Its messages are sealed, in both
  /// directions, and nothing that does not open is received. A former offer,
  /// and the connection that used it, are void from now on. Precondition:
  /// has_sealed_port().
  seal_offer offer_sealed(const seal_subject& subject);
  /// Returns whether a sealed connection received something that does not
  /// open, or lost something, so that nothing passes any more.
  bool seal_broke() const noexcept { return sealed_ && sealed_->broken; }
  /// Returns whether the peer is certainly on this host.
  bool within_host() const noexcept { return is_loopback(endpoint_); }
  /// Returns whether an endpoint is a loopback address.
  static bool is_loopback(std::string_view endpoint) noexcept {
    return endpoint.starts_with("tcp://127.");
  }

  /// Adds the descriptors that an owner must watch if it sleeps on more than
  /// this socket. The first becomes readable when there may be messages, the
  /// second when connections change. A socket that binds with keys has a third
  /// one, which means the same as the second. Call it only while overlooked()
  /// is false.
  void add_to(std::vector<pollfd>& items);

  /// Returns whether there may be messages that no descriptor signals any more,
  /// because sending also processes what has arrived. Never true directly after
  /// receive() returned null.
  bool overlooked();

  /// Returns whether there are messages. After true, no descriptor signals
  /// them.
  bool has_messages();

  /// Sleeps until the socket, its monitor or `bell` (a file descriptor) has
  /// something, or `also` has. Returns at once when `wait` is false. The result
  /// says whether the bell rings.
  bool sleep(int bell, bool wait, link_socket* also = nullptr);

  /// Returns whether the name is one of this socket's peers', present or past.
  /// Where no socket has a mark, all are.
  bool names(const std::string& peer) const noexcept {
    return peer.starts_with(mark_);
  }
  /// Returns the losses of all its peers, for who closes it.
  std::vector<link_event> losses() const;
  /// Opens another socket that listens at its port.
  result<unique_fd> listen_beside() const;

  /// Returns the next message, or null when there is none. Drops and logs a
  /// message with no frames or too many.
  parcel_ptr receive();

  /// Says whether a message was sent, its peer was gone, or the peer's queue
  /// full.
  enum class sent { yes, gone, full };
  /// Sends without blocking.
  sent send(dispatch& out);

  /// Returns the changes of connections since the last call. In a connecting
  /// socket, `up` precedes every message of that connection.
  std::vector<link_event> connection_changes();

private:
  void use_keys(const link_options& options);
  void use_ticket(const sealed_way& way);
  void bind_second(unsigned io_thread, bool sealed);
  bool admits(const std::string& peer, int fd, zmq::message_t& head,
              zmq::message_t& bulk, principal_ptr& who);
  bool opens(const std::string& holder, const std::string& peer, int fd,
             zmq::message_t& head, zmq::message_t& bulk);
  sent send_frames(dispatch& out);
  sent send_sealed(const dispatch& out);
  bool receive_frames(zmq::message_t& peer, zmq::message_t& head,
                      zmq::message_t& bulk);
  void remember(const std::string& peer, int fd);
  void end_connections(const std::set<int>& ended,
                       std::vector<link_event>& out);
  void doubt(int fd);
  void note_refused(const std::string& where);
  void probe_doubted(std::vector<link_event>& out);
  bool is_gone(const std::string& peer);
  zmq::const_buffer routing_id(const std::string& peer) const noexcept;

  std::chrono::milliseconds longest_sleep() const;

  bool binds_;
  bool ends_silent_;
  std::string name_;
  std::string endpoint_;
  std::string mark_;
  /// Is ZeroMQ's descriptor that listens; -1: it is not known.
  int listening_ = -1;
  std::uint16_t second_port_ = 0;
  std::uint16_t sealed_port_ = 0;
  /// Holds what the tickets of the sealed port open, where it binds one.
  std::shared_ptr<sealed_tickets> tickets_;
  /// Describes the connection of the latest offer.
  struct sealed_connection {
    frame_seal in;
    frame_seal out;
    std::string holder; // whom ZeroMQ names; empty where it connects
    std::string peer;   // empty until it has sent something
    bool broken = false;
  };
  std::optional<sealed_connection> sealed_;
  /// Holds the peers at the sealed port. Nothing is sent to them in the clear,
  /// also after their offer was void.
  std::set<std::string> sealed_peers_;
  log_limit unsealed_;
  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  /// Describes a descriptor of a bound socket. The kernel may reuse it before
  /// the end of its former connection is known, and messages of that one may
  /// still be read later. So it may have several peers for a while.
  struct connection {
    /// Tells whether the latest event was its beginning.
    bool stands = false;
    std::set<std::string> peers;
  };
  std::map<int, connection> on_;
  /// Holds the descriptors with peers that may be gone, and how often these are
  /// probed yet.
  std::map<int, int> doubted_;
  std::chrono::steady_clock::time_point next_probe_{};
  silent_connections silent_;
  /// Is set where the socket binds with keys.
  std::optional<keyed_connections> keyed_;
  /// Says whether handshakes prove keys.
  bool has_keys_ = false;
  log_limit malformed_;
  log_limit refused_;
  /// Tells whether receive() found nothing and nothing was done since.
  bool drained_ = false;
};

} // namespace vgpu
