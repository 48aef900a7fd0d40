// Reads a session's calls from the log of a client on this host, which this
// process maps.
#pragma once

#include "actors/compute/busy_meter.hpp"
#include "actors/link/unix_socket.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/session_identity.hpp"
#include "actors/worker/session/answers.hpp"
#include "schema/log/call_log.hpp"

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vgpu {

/// Owns the socket to which clients of this host connect, the log that one of
/// them handed over, and the connection to that client. The log stays mapped
/// when its client goes, so that the devices' answers still reach the program.
/// It gives the executor the session's host memory and the place for answers.
///
/// The server's thread uses it. While that thread executes a call, its
/// heartbeat thread may read log().
class mapped_source {
public:
  /// Holds what a client handed over: the session's memory, and the program's
  /// doorbell.
  struct mapped_log {
    std::shared_ptr<const session_area> area;
    unique_fd doorbell;
    log_reader reader;
    std::shared_ptr<mapped_answers> answers;
    std::shared_ptr<host_files> files;

    mapped_log(session_area memory, unique_fd bell,
               std::function<void()> first_answer);
  };
  /// Holds a connection and its first message.
  struct greeting {
    packet words;
    unique_fd socket;
  };

  /// Calls `ring`, on any thread, after the first answer.
  mapped_source(const session_identity& identity, executor& exec,
                busy_meter& busy, unique_fd listener,
                std::function<void()> ring)
      : identity_(identity), exec_(exec), busy_(busy),
        listener_(std::move(listener)), ring_(std::move(ring)) {}

  // -- waiting ----------------------------------------------------------------

  /// Adds the descriptors that signal clients and calls.
  void add_to(std::vector<pollfd>& items);
  /// Notes what poll(2) found.
  void note_ready(const std::vector<pollfd>& items);
  void forget_ready() noexcept { ready_ = {}; }
  /// Returns whether a call, valid or damaged, lies in the log.
  bool has_call() const noexcept { return log_->reader.ready(); }
  /// Announces that this thread will sleep on the doorbell. Returns false where
  /// a call arrived meanwhile. note_ready() ends it.
  bool fall_asleep();

  // -- clients ----------------------------------------------------------------

  /// Accepts new connections, and returns those whose first message arrived.
  std::vector<greeting> receive_greetings();
  /// Maps the log that a client hands over, or checks that it is the same log.
  /// `restores` says that a state comes with it. `position` is the next needed
  /// call.
  status adopt(packet& hello, bool restores, std::uint64_t position);
  /// Serves the client at this socket, which has handed over the log, from the
  /// call at `position` on.
  void serve(unique_fd socket, std::uint64_t position);
  bool has_client() const noexcept { return has_client_; }
  void drop_client() noexcept { has_client_ = false; }
  /// Returns whether note_ready() found a message of the client.
  bool client_speaks() const noexcept { return has_client_ && ready_.client; }
  /// Returns the client's next message, if there is one.
  result<std::optional<packet>> receive();
  /// Returns whether the client has read everything that was sent.
  bool is_read() const noexcept;
  /// Sends to the client. Precondition: has_client().
  void send(data::body body, std::span<const int> descriptors = {});

  // -- the log ----------------------------------------------------------------

  /// Returns the log; null before any client handed one over.
  mapped_log* log() noexcept { return log_.get(); }
  const mapped_log* log() const noexcept { return log_.get(); }
  /// Closes the listener and all connections, so that nobody can connect to
  /// this worker.
  void close();

private:
  struct readiness {
    bool listener = false;
    bool strangers = false;
    bool client = false;
  };

  const session_identity& identity_;
  executor& exec_;
  busy_meter& busy_;
  unique_fd listener_;
  std::function<void()> ring_;
  /// Holds connections that have not shown a token yet.
  std::vector<unique_fd> strangers_;
  std::unique_ptr<mapped_log> log_;
  unique_fd client_;
  bool has_client_ = false;
  bool asleep_ = false;
  std::size_t first_item_ = 0;
  readiness ready_;
};

} // namespace vgpu
