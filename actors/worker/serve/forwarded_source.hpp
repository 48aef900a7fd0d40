// Receives a session's calls from a client elsewhere.
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

/// Owns the data plane's socket, the calls that arrived by it and wait, and the
/// answers to send. A client may have two connections: long answers alternate
/// between them, and calls may come by either. Where the port has keys, the
/// second connection is sealed, and long answers use it alone.
///
/// The server's thread uses it. While that thread executes a call, its
/// heartbeat thread may use it instead.
class forwarded_source {
public:
  /// Holds waiting calls, and the owner of their bytes.
  struct range {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> rest;
  };

  /// Returns calls that are aligned to words, as records are read: these, or a
  /// copy of them. Large frames and aligned parcels are aligned already.
  static range in_words(range calls);

  /// Calls `ring`, on any thread, when there is an answer to send.
  forwarded_source(const session_identity& identity, executor& exec,
                   const client_silence& silence,
                   std::unique_ptr<link_socket> socket,
                   std::function<void()> ring)
      : identity_(identity), exec_(exec), silence_(silence),
        socket_(std::move(socket)), ring_(std::move(ring)) {}

  // -- waiting ----------------------------------------------------------------

  /// Adds the descriptors that signal messages and connections.
  void add_to(std::vector<pollfd>& items);
  /// Notes what poll(2) found. `overlooked` says that there are messages that
  /// no descriptor signals.
  void note_ready(const std::vector<pollfd>& items, bool overlooked);
  void forget_ready() noexcept { ready_ = {}; }
  /// Returns whether there are messages that no descriptor signals.
  bool overlooked() { return socket_->overlooked() || !postponed_.empty(); }
  /// Checks for messages with at most one system call, and marks its item of
  /// `items` if there are some.
  bool has_messages(std::vector<pollfd>& items);
  bool messages_ready() const noexcept { return ready_.messages; }
  bool connections_ready() const noexcept { return ready_.connections; }
  void note_connections() { (void)socket_->connection_changes(); }

  // -- messages ---------------------------------------------------------------

  /// Returns the next message, or null where there is none.
  parcel_ptr receive() { return socket_->receive(); }
  /// Returns the next of the messages that arrived during a call and were
  /// postponed, or null. They come before those that receive() returns. Until
  /// its turn comes, ranges_from() finds a message's calls.
  parcel_ptr next_postponed();
  /// Takes a message that arrives while a call is executed. It handles a sign
  /// of life at once and returns true, and postpones all others.
  bool receive_in_call(parcel_ptr in);
  void send(const std::string& peer, data::body body);
  /// Sends bytes of a state's file to the client.
  void send_part(data::state_part head,
                 std::shared_ptr<const std::vector<std::byte>> bytes);

  // -- the client -------------------------------------------------------------

  bool has_client() const noexcept { return !client_.empty(); }
  bool is_client(const std::string& peer) const { return peer == client_; }
  void drop_client() noexcept { client_.clear(); }
  /// Serves the client at this peer, which has attached, from the call at
  /// `position` on. From now on the executor sends its answers here.
  void attach(const std::string& peer, const data::attach& x,
              std::uint64_t position);
  /// Serves the client further, which has shown its lease again during a call.
  /// It sends its calls again from received() on, so those that were postponed
  /// are dropped.
  void attach_again(const data::attach& x);
  /// Records this peer as the client's second connection.
  void join(const std::string& peer) { second_ = peer; }
  /// Tells the client how far the worker is, and how it may open a second
  /// connection. In place of a sealed one that it has, it must open another.
  void send_attached(const data::progress& at);
  /// Sends to the client. Precondition: has_client().
  void send(data::body body) { send(client_, std::move(body)); }

  // -- calls ------------------------------------------------------------------

  /// Returns whether calls may come from this peer.
  bool takes_calls_of(const std::string& peer) const {
    return has_client() && (peer == client_ || peer == second_);
  }
  /// Takes a range of calls. Returns false where calls before it are missing,
  /// or it exceeds the client's credit (worker_bounds.hpp): it must be sent
  /// again.
  bool take(const data::calls& x, const parcel_ptr& in);
  /// Returns whether calls that the client has sent are lost. Messages of one
  /// connection keep their order. With two connections, missing calls may still
  /// arrive by the other one. When that breaks, the client attaches again.
  bool has_lost(std::uint64_t sent) const {
    return sent > received_ && second_.empty();
  }
  /// Returns the position before which all calls have arrived.
  std::uint64_t received() const noexcept { return received_; }
  /// Continues at this position, to which a state has brought the session.
  void skip_to(std::uint64_t position);

  bool has_calls() const noexcept { return !calls_.empty(); }
  /// Reads the next call, which begins at `position`. Fails where the client
  /// sent none.
  result<record> next(std::uint64_t position);
  /// Returns the owner of the bytes of the call that next() read.
  std::shared_ptr<const void> owner() const { return calls_.front().owner; }
  /// Drops the call that next() read, of so many bytes.
  void drop(std::uint64_t bytes);
  /// Returns the waiting calls from `position` on, up to the first gap.
  std::vector<range> ranges_from(std::uint64_t position) const;

  // -- answers ----------------------------------------------------------------

  /// Returns the answers for a client elsewhere; null before one attached.
  const std::shared_ptr<forwarded_answers>& answers() const noexcept {
    return answers_;
  }
  /// Sends as many answers as possible, unless the client's lease has lapsed.
  void send_answers();
  /// Returns whether the client takes answers more slowly than they come, so
  /// that some wait for room in its queue.
  bool waits_for_room() const noexcept { return waits_for_room_; }

private:
  struct readiness {
    bool messages = false;
    bool connections = false;
  };
  struct calls_in_order {
    data::calls range;
    parcel_ptr in;
  };

  void begin_again(const data::attach& x);
  bool is_within_credit(std::uint64_t position) const;
  void queue(const data::calls& x, const parcel_ptr& in);
  link_socket::sent send_answer(const outbound_answer& out);
  void postpone(parcel_ptr in);
  std::multimap<std::uint64_t, parcel_ptr> unordered() const;

  const session_identity& identity_;
  executor& exec_;
  const client_silence& silence_;
  std::unique_ptr<link_socket> socket_;
  std::function<void()> ring_;
  std::size_t first_item_ = 0;
  std::size_t items_ = 0;
  readiness ready_;

  std::string client_;     // the peer that forwards; empty: none
  std::string second_;     // its second or sealed connection; empty: none
  bool by_second_ = false; // the last long answer went there

  reorder_buffer<calls_in_order> reorder_;
  std::deque<range> calls_;
  std::vector<std::uint64_t> scratch_;
  std::uint64_t received_ = 0;
  /// Holds messages that arrived during a call and are no sign of life.
  std::deque<parcel_ptr> postponed_;
  /// Counts the bytes of those that were dropped, too, until none is left.
  std::size_t postponed_bytes_ = 0;
  std::size_t strangers_postponed_ = 0;

  std::shared_ptr<forwarded_answers> answers_;
  bool waits_for_room_ = false;
};

/// Returns the head of a message of the data plane.
result<data::head> head_of(const parcel& in);

} // namespace vgpu
