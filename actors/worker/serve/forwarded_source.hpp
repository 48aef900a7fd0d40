// A session's calls from a client elsewhere, which forwards them.
#pragma once

#include "actors/link/frames.hpp"
#include "actors/link/link_socket.hpp"
#include "actors/link/reorder_buffer.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/client_silence.hpp"
#include "actors/worker/serve/forwarded_answers.hpp"
#include "actors/worker/serve/session_identity.hpp"
#include "schema/log/call_log.hpp"

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Owns the data plane's socket, the calls that came by it and wait, and the
/// answers that go back. A client may have two connections: long answers take
/// turns, and calls may come by either.
///
/// The server's thread uses it. While that executes a call, its heartbeat
/// thread may do so in its place.
class forwarded_source {
public:
  /// Calls that came and wait, and what keeps them.
  struct range {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> rest;
  };

  /// `ring` is called, by any thread, when there is an answer to send.
  forwarded_source(const session_identity& identity, executor& exec,
                   const client_silence& silence,
                   std::unique_ptr<link_socket> socket,
                   std::function<void()> ring)
      : identity_(identity), exec_(exec), silence_(silence),
        socket_(std::move(socket)), ring_(std::move(ring)) {}

  // -- waiting ----------------------------------------------------------------

  /// Adds what tells of messages and connections.
  void add_to(std::vector<pollfd>& items);
  /// Takes down what poll(2) found of them. `overlooked`: there are messages
  /// that poll does not tell of.
  void note_ready(const std::vector<pollfd>& items, bool overlooked);
  void forget_ready() noexcept { ready_ = {}; }
  /// Whether there are messages that poll(2) does not tell of.
  bool overlooked() { return socket_->overlooked() || !postponed_.empty(); }
  /// Looks for messages by one system call at most, and marks its item of
  /// `items` where there are some.
  bool has_messages(std::vector<pollfd>& items);
  bool messages_ready() const noexcept { return ready_.messages; }
  bool connections_ready() const noexcept { return ready_.connections; }
  void note_connections() { (void)socket_->connection_changes(); }

  // -- messages ---------------------------------------------------------------

  /// Takes the next message, or null where none came.
  parcel_ptr receive() { return socket_->receive(); }
  /// Takes what came while a call was executed and had to wait for its end.
  std::deque<parcel_ptr> take_postponed();
  /// Takes what comes while a call is executed. A sign of life of the client is
  /// heard at once, and returns true where it is heard; the rest is postponed.
  bool receive_in_call(parcel_ptr in);
  void send(const std::string& peer, data::body body);
  /// Sends bytes of a state's file, as a message to the client.
  void send_part(data::state_part head,
                 std::shared_ptr<const std::vector<std::byte>> bytes);

  // -- the client -------------------------------------------------------------

  bool has_client() const noexcept { return !client_.empty(); }
  bool is_client(const std::string& peer) const { return peer == client_; }
  void drop_client() noexcept { client_.clear(); }
  /// Serves the client at this peer, which has shown its lease, from the call
  /// at `position` on. The executor answers here from now on.
  void attach(const std::string& peer, const data::attach& x,
              std::uint64_t position);
  /// Takes this peer as the client's second connection.
  void join(const std::string& peer) { second_ = peer; }
  std::uint16_t second_port() const noexcept { return socket_->second_port(); }
  /// Sends to the client. Precondition: has_client().
  void send(data::body body) { send(client_, std::move(body)); }

  // -- calls ------------------------------------------------------------------

  /// Whether calls may come from this peer.
  bool takes_calls_of(const std::string& peer) const {
    return has_client() && (peer == client_ || peer == second_);
  }
  /// Takes a range of calls. Returns false where something before it is missing
  /// and is to be sent again.
  bool take(const data::calls& x, const parcel_ptr& in);
  /// Whether what the client has sent and did not come was lost. Messages of
  /// one connection keep their order. Of two, what is missing may be on its way
  /// by the other; when that breaks, the client shows its lease again.
  bool has_lost(std::uint64_t sent) const {
    return sent > received_ && second_.empty();
  }
  /// The position before which all calls came.
  std::uint64_t received() const noexcept { return received_; }
  /// A state has brought the session to this position.
  void skip_to(std::uint64_t position);

  bool has_calls() const noexcept { return !calls_.empty(); }
  /// Reads the next call, which begins at `position`. A fault where the client
  /// sent none.
  result<record> next(std::uint64_t position);
  /// What keeps the call that next() read.
  std::shared_ptr<const void> owner() const { return calls_.front().owner; }
  /// The call that next() read, of so many bytes, was executed.
  void drop(std::uint64_t bytes);
  /// The calls that lie ahead, as far as they follow one another from
  /// `position` on.
  std::vector<range> ranges_from(std::uint64_t position) const;

  // -- answers ----------------------------------------------------------------

  /// Answers for a client elsewhere; null before one attached.
  const std::shared_ptr<forwarded_answers>& answers() const noexcept {
    return answers_;
  }
  /// Sends what can be sent, unless the client's lease has lapsed.
  void send_answers();

private:
  struct readiness {
    bool messages = false;
    bool connections = false;
  };
  struct calls_in_order {
    data::calls range;
    parcel_ptr in;
  };

  void queue(const data::calls& x, const parcel_ptr& in);
  bool send_answer(const outbound_answer& out);
  void postpone(parcel_ptr in);
  std::multimap<std::uint64_t, parcel_ptr> unordered() const;

  const session_identity& identity_;
  executor& exec_;
  const client_silence& silence_;
  std::unique_ptr<link_socket> socket_;
  std::function<void()> ring_;
  std::size_t first_item_ = 0;
  readiness ready_;

  std::string client_;     // the peer that forwards, empty where there is none
  std::string second_;     // its other connection, empty where it has none
  bool by_second_ = false; // the last long answer went there

  reorder_buffer<calls_in_order> reorder_;
  std::deque<range> calls_;
  std::vector<std::uint64_t> scratch_;
  std::uint64_t received_ = 0;
  /// What came while a call was executed, and is no sign of life.
  std::deque<parcel_ptr> postponed_;
  std::size_t postponed_bytes_ = 0;

  std::shared_ptr<forwarded_answers> answers_;
};

/// Reads what a message of the data plane says.
result<data::head> head_of(const parcel& in);

} // namespace vgpu
