// The worker's data plane: takes a session's calls, from a log that it maps or
// from a client that forwards them, and has them executed.
#pragma once

#include "actors/link/link_socket.hpp"
#include "actors/link/polling_actor.hpp"
#include "actors/link/unix_socket.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/calls_ahead.hpp"
#include "actors/worker/serve/client_channel.hpp"
#include "actors/worker/serve/client_silence.hpp"
#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "actors/worker/serve/mapped_source.hpp"
#include "actors/worker/serve/replay_progress.hpp"
#include "actors/worker/serve/session_gauges.hpp"
#include "actors/worker/serve/session_identity.hpp"
#include "actors/worker/serve/session_server_options.hpp"
#include "actors/worker/serve/state_arrival.hpp"
#include "actors/worker/serve/worker_checkpoint.hpp"
#include "actors/worker/serve/zero_copy_relay.hpp"
#include "schema/base/busy_poll.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace vgpu {

/// Told to the server's owner when it ends, with the reason; `clean` where the
/// program is over, and not where another worker must take the session up.
using server_done = std::function<void(const std::string& why, bool clean)>;

/// One thread, spawned detached, that waits for everything that concerns a
/// session and lets the parts below act on it. It alone touches them and the
/// executor, but for the heartbeat thread while a call is executed. Takes
/// (inject_fault: device ordinal, device::injected_fault), a quota in bytes
/// (std::uint64_t), and exit messages.
///
/// A worker serves one client at a time: the one that last showed the token of
/// this epoch. It ends when its client says that the session is over, or has
/// been gone for too long.
///
///   mapped_source     calls of a client on this host ┐
///   forwarded_source  calls of a client elsewhere    ┴ client_channel
///   replay_progress   what is executed, replayed and charged
///   zero_copy_relay   what kernels write for a program that only looks
///   state_arrival     a state to begin with
///   worker_checkpoint a state to end with, and the phases to it
///   calls_ahead       a look at the calls behind one that takes long
class session_server final : public polling_actor {
public:
  session_server(caf::actor_config& cfg, session_server_options options,
                 std::unique_ptr<executor> exec,
                 std::unique_ptr<link_socket> socket, unique_fd listener,
                 std::shared_ptr<session_gauges> gauges, server_done done);

  ~session_server() override;

  const char* name() const override { return "vgpu.session-server"; }
  void act() override;

private:
  using clock = std::chrono::steady_clock;

  // waiting
  void wait();
  bool poll_log(clock::time_point began);
  void sleep(clock::time_point began, bool polls);
  std::chrono::milliseconds patience() const;

  // what came
  void read_mailbox();
  void check_lease();
  void check_abandoned();
  void check_device();
  void publish();
  void end(const std::string& why, bool clean = true);

  // a client on this host (session_server_clients.cpp)
  void read_guest();
  bool take_from_guest(packet& in);
  void attach_guest(packet& hello, unique_fd socket);
  status adopt(packet& hello, const data::attach& x);

  // a client elsewhere (session_server_clients.cpp)
  void read_messages();
  void take(const std::string& peer, const data::head& head,
            const parcel_ptr& in);
  void take_from_client(const data::head& head, const parcel_ptr& in);
  void on(const std::string& peer, const data::attach& x);
  void on(const std::string& peer, const data::join& x);
  void on(const data::calls& x, const parcel_ptr& in);
  void on(const data::keepalive& x);
  void on(const data::state_wanted& x);
  void on(const data::state_part& x, const parcel_ptr& in);
  void begin_replay(const data::attach& by);
  data::attached attached() const;

  // calls
  bool takes_calls() const;
  void execute_log();
  void execute_forwarded();
  bool execute(const record& what, std::shared_ptr<const void> owner);
  void after_call(std::uint64_t position);
  void await_turn();
  void look_replayed();
  void beat(std::chrono::milliseconds took);

  session_server_options options_;
  session_identity identity_;
  std::unique_ptr<executor> exec_;
  std::shared_ptr<session_gauges> gauges_;
  server_done done_;
  bool running_ = true;

  client_silence silence_;
  mapped_source mapped_;
  forwarded_source forwarded_;
  client_channel client_;
  replay_progress progress_;
  zero_copy_relay zero_copy_;
  state_arrival arrival_;
  worker_checkpoint checkpoint_;
  calls_ahead ahead_;

  busy_poll mapped_polls_;
  busy_poll forwarded_polls_;
  /// Rounds since all that may be ready was looked at.
  unsigned unpolled_ = 0;
  /// The next call waits for the session's turn.
  bool no_turn_ = false;
  /// The heartbeat thread beats for a call of the program's.
  bool in_call_ = false;

  // Last: it uses the rest.
  heartbeat_thread heartbeats_;
};

} // namespace vgpu
