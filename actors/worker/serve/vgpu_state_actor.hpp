// The vGPU state actor: owns a session's state, answers questions about it, and
// executes its calls from a log that it maps or from a client that forwards
// them.
#pragma once

#include "actors/link/link_socket.hpp"
#include "actors/link/log_limit.hpp"
#include "actors/link/polling_actor.hpp"
#include "actors/link/unix_socket.hpp"
#include "actors/state/vgpu_actor.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/calls_ahead.hpp"
#include "actors/worker/serve/client_channel.hpp"
#include "actors/worker/serve/client_silence.hpp"
#include "actors/worker/serve/cover_guard.hpp"
#include "actors/worker/serve/divergence_guard.hpp"
#include "actors/worker/serve/forwarded_source.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "actors/worker/serve/mapped_source.hpp"
#include "actors/worker/serve/replay_progress.hpp"
#include "actors/worker/serve/session_gauges.hpp"
#include "actors/worker/serve/session_identity.hpp"
#include "actors/worker/serve/session_step.hpp"
#include "actors/worker/serve/state_arrival.hpp"
#include "actors/worker/serve/vgpu_actor_options.hpp"
#include "actors/worker/serve/worker_checkpoint.hpp"
#include "actors/worker/serve/zero_copy_relay.hpp"
#include "schema/base/busy_poll.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

/// Is called when the actor ends, with the reason. `clean` says that the
/// program is over; otherwise another worker must recover the session.
using session_done = std::function<void(const std::string& why, bool clean)>;

/// Has a session at one place, under its logical name. The actor runs detached
/// on one thread, which waits for all events of the session and calls the parts
/// below. Only this thread uses them and the executor, except for the heartbeat
/// thread during a call. It executes calls where they lie; the mailbox gets
/// only the messages of vgpu_actor.hpp.
///
/// Clients ask the same questions over the data plane. One handler answers each
/// question on both ways:
///
///   question   mailbox         data plane              handler
///   pause      pause_vgpu      checkpoint              pause()
///   describe   describe_vgpu   state_wanted            describe()
///   adopt      adopt_vgpu      attach, state_part      adopt()
///   resume     resume_vgpu     go_on, attach           resume()
///   where      where_is_vgpu   (clients have a lease)  where()
///
/// A worker serves one client at a time: the one that last showed the token of
/// this epoch. It ends when its client reports that the session is over, or has
/// been gone for too long.
///
///   mapped_source     calls of a client on this host ┐
///   forwarded_source  calls of a client elsewhere    ┴ client_channel
///   replay_progress   what is executed, replayed and charged
///   divergence_guard  answers, until a replay was compared
///   cover_guard       reads, until a snapshot covers them
///   zero_copy_relay   what kernels write for a program that only looks
///   state_arrival     a state to begin with
///   worker_checkpoint a state to end with, and the phases to it
///   calls_ahead       a look at the calls behind one that takes long
class vgpu_state_actor final : public polling_actor {
public:
  vgpu_state_actor(caf::actor_config& cfg, vgpu_actor_options options,
                   std::unique_ptr<executor> exec,
                   std::unique_ptr<link_socket> socket, unique_fd listener,
                   std::shared_ptr<session_gauges> gauges, session_done done);

  ~vgpu_state_actor() override;

  /// Returns the logical name, `vgpu/17`.
  const char* name() const override { return name_.c_str(); }
  void act() override;

private:
  using clock = std::chrono::steady_clock;
  struct postponed_pause {
    data::checkpoint order;
    std::vector<unique_fd> files;
  };

  // -- waiting
  void wait();
  bool poll_log(clock::time_point began);
  void sleep(clock::time_point began, bool polls);
  std::chrono::milliseconds patience() const;

  // -- events
  void read_mailbox();
  void check_lease();
  bool holds_lease();
  void check_abandoned();
  void check_device();
  void publish();
  void end(const std::string& why, bool clean = true);

  // the five questions (vgpu_state_actor_questions.cpp)
  vgpu_phase phase() const noexcept;
  vgpu_place where() const;
  status pause(const data::checkpoint& x, std::vector<unique_fd> files,
               checkpoint_ended ended = {});
  void pause_if_compared();
  result<vgpu_description> describe() const;
  void describe(const data::state_wanted& x);
  status adopt(packet& hello, const data::attach& x);
  bool adopt(const data::attach& x);
  status adopt(const shared_file& state, bool keeps_file);
  status resume();
  void answer_gone();

  // -- questions from the mailbox (vgpu_state_actor_questions.cpp)
  template <class Question>
  caf::error refusal_of(const Question& x) const;
  caf::typed_response_promise<vgpu_place> answer(const pause_vgpu& x);
  caf::result<vgpu_description> answer(const describe_vgpu& x);
  caf::result<vgpu_place> answer(const adopt_vgpu& x);
  caf::result<vgpu_place> answer(const resume_vgpu& x);
  void take(caf::exit_msg& x);

  // a client on this host (vgpu_state_actor_clients.cpp)
  void read_guest();
  bool take_from_guest(packet& in);
  void attach_guest(packet& hello, unique_fd socket);

  // a client elsewhere (vgpu_state_actor_clients.cpp)
  void read_messages();
  void take(const std::string& peer, const data::head& head,
            const parcel_ptr& in, bool is_new);
  void refuse_lapsed(const std::string& peer);
  bool take_lapsed(const parcel_ptr& in);
  void take_from_client(const data::head& head, const parcel_ptr& in);
  void on(const std::string& peer, const data::attach& x);
  void on(const std::string& peer, const data::join& x);
  void on(const data::calls& x, const parcel_ptr& in);
  void on(const data::keepalive& x);
  void on(const data::covered& x);
  void on(const data::state_part& x, const parcel_ptr& in);
  void begin_replay(const data::attach& by);
  void arrived();

  // calls
  bool is_over() const noexcept { return step_ == session_step::over; }
  bool takes_calls() const;
  void execute_log();
  bool answers_congested() const;
  void execute_forwarded();
  bool execute(const record& what, std::shared_ptr<const void> owner);
  void after_call(std::uint64_t position);
  void await_turn();
  void look_covered();
  void look_ahead();
  void look_replayed();
  void beat(std::chrono::milliseconds took);

  vgpu_actor_options options_;
  session_identity identity_;
  std::unique_ptr<executor> exec_;
  std::shared_ptr<session_gauges> gauges_;
  session_done done_;
  std::string name_;
  session_step step_ = session_step::arriving;
  /// Receives the outcome of a pause that came by the mailbox.
  checkpoint_ended pause_ended_;
  /// Holds the order of a pause that waits until a replay was compared.
  std::optional<postponed_pause> postponed_;

  client_silence silence_;
  mapped_source mapped_;
  forwarded_source forwarded_;
  client_channel client_;
  replay_progress progress_;
  divergence_guard guard_;
  cover_guard cover_;
  zero_copy_relay zero_copy_;
  state_arrival arrival_;
  worker_checkpoint checkpoint_;
  calls_ahead ahead_;
  log_limit strange_; // lines about peers

  busy_poll mapped_polls_;
  busy_poll forwarded_polls_;
  /// Counts the rounds since all sources were polled.
  unsigned unpolled_ = 0;

  // Comes last, because its thread uses the other members.
  heartbeat_thread heartbeats_;
};

/// Spawns a vGPU state actor on a thread of its own. The class of a blocking
/// actor cannot be typed; this function guarantees that it takes exactly the
/// messages of vgpu_actor.
vgpu_actor
spawn_vgpu_actor(caf::actor_system& system, vgpu_actor_options options,
                 std::unique_ptr<executor> exec,
                 std::unique_ptr<link_socket> socket, unique_fd listener,
                 std::shared_ptr<session_gauges> gauges, session_done done);

} // namespace vgpu
