// The client's actor for one session: it has the program's socket and log, and
// one worker that serves them.
#pragma once

#include "actors/client/checkpoint_taker.hpp"
#include "actors/client/client_actor.hpp"
#include "actors/client/session_client_actor.hpp"
#include "actors/client/session_client_options.hpp"
#include "actors/client/session_phase.hpp"
#include "actors/client/worker_channel.hpp"
#include "actors/link/polling_actor.hpp"
#include "actors/link/unix_socket.hpp"
#include "schema/base/busy_poll.hpp"

#include <zmq.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vgpu {

struct session_parts;

/// Serves one program, on a thread of its own. spawn_session_client() spawns
/// it.
///
/// It sends its owner the program's request once, and then all messages for the
/// manager. It ends when the program is gone, which the owner monitors. For a
/// program that only watches it ends after the answer.
///
/// It serves the program from one epoch at a time: before it hands the log to a
/// new worker, it makes sure that the former one is dead or has stopped.
///
/// It owns the program's socket, the phase (session_phase) and the parts
/// (session_parts). It decides what happens in which phase. The parts do it,
/// and report back through return values, worker_listener and
/// checkpoint_listener. checkpoint_listener.
class session_client final : public polling_actor,
                             private worker_listener,
                             private checkpoint_listener {
public:
  session_client(caf::actor_config& cfg, zmq::context_t& zmq,
                 session_client_options options, unique_fd guest,
                 session_owner owner);
  ~session_client() override;

  const char* name() const override { return "vgpu.session-client"; }
  void act() override;

private:
  using clock = std::chrono::steady_clock;

  void enter(session_phase next) noexcept { phase_ = next; }
  void end(const std::string& why);

  // waiting (session_client.cpp)
  bool wait();
  void busy_poll_or_sleep(worker_channel* channel, bool overlooked);
  bool reads_calls() const;
  std::chrono::milliseconds patience() const;
  void work();
  void forward();
  void wake_manager();
  void take_snapshot();
  void fail_calls();

  // the program and the manager (session_client.cpp)
  void read_mailbox();
  void read_program();
  void open(packet hello);
  void take_notice(const packet& in);
  void refuse(const control::refusal& why);
  void send_watched(const guest::watched& what);
  void send_waiting(const std::string& why);

  // leases (session_client_leases.cpp)
  void take_lease(const control::lease& lease);
  void amend(const control::lease& next);
  bool take_recovery(const control::recovery_terms& x);
  void suspect_again();
  void serve(const control::lease& lease);
  bool pass_fence();
  bool choose_beginning();
  void begin_replay(bool follows);
  void attach();
  bool attach_mapped();
  void attach_forwarded();
  bool maps_log() const;
  data::attach make_attach(std::uint64_t answers_seen) const;

  // checkpoints (session_client_leases.cpp)
  void pause(const control::pause_session& order);
  void restore_process(const control::restore_process& order);
  void on_process_resumed();
  void report_difference(const data::differs& x);
  void check_cover();
  checkpoint_taker* checkpoint() const;
  bool may_snapshot() const;

  // worker_listener
  void suspect(const std::string& why) override;
  void lose_session(const std::string& why) override;
  data::attach begin_attach(std::uint64_t answers_seen) override;
  void on_attached(std::optional<std::uint64_t> received) override;
  void on_progress(const data::progress& x) override;
  void on_answer() override;
  void on_message(const data::head& head, worker_payload payload) override;

  // checkpoint_listener
  void on_state(held_state state) override;
  void on_process_checkpointed(const data::checkpointed& stopped,
                               std::chrono::nanoseconds stood) override;
  void on_checkpoint_over() override;

  zmq::context_t& zmq_;
  session_client_options options_;
  unique_fd program_;
  session_owner owner_;
  session_phase phase_ = session_phase::opening;
  std::vector<pollfd> items_; // to poll; the first is the program's socket
  busy_poll busy_poll_{options_.busy_poll};
  /// Holds the position up to which workers of former epochs have charged the
  /// session's calls.
  std::uint64_t charged_before_ = 0;
  /// Holds the parts; null while `opening`.
  std::unique_ptr<session_parts> parts_;
};

/// Spawns a session_client for the program that connected by `guest`. `zmq`
/// must outlive it.
session_client_actor spawn_session_client(caf::actor_system& system,
                                          zmq::context_t& zmq,
                                          session_client_options options,
                                          unique_fd guest, session_owner owner);

} // namespace vgpu
