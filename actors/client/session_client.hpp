// A session's end on the program's host: the program's socket and log, and the
// one worker that serves them.
#pragma once

#include "actors/client/session_client_messages.hpp"
#include "actors/client/session_client_options.hpp"
#include "actors/link/data_head.hpp"
#include "actors/link/link_socket.hpp"
#include "actors/link/polling_actor.hpp"
#include "actors/link/protocol.hpp"
#include "actors/link/unix_socket.hpp"
#include "actors/state/snapshot_inflow.hpp"
#include "actors/state/state_transfer.hpp"
#include "schema/base/busy_poll.hpp"
#include "schema/log/call_log.hpp"
#include "schema/log/snapshot_files.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// One thread a session, spawned detached, with the program's connection.
///
/// To its owner it sends guest_opened_ptr once, control_body_ptr for what the
/// manager should hear, and ends (the owner monitors it) when the program is
/// gone. From its owner it takes lease_ptr, each with a higher epoch than the
/// one before, refusal_ptr, news_ptr, pause_order_ptr, bring_back_ptr, and exit
/// messages. Where the program only watches, it sends guest_watches_ptr, takes
/// watched_ptr, and ends.
///
/// It serves the program from one epoch at a time: before it hands the log to a
/// new worker it makes sure that the old one is dead or has stopped.
class session_client final : public polling_actor {
public:
  session_client(caf::actor_config& cfg, zmq::context_t& zmq,
                 session_client_options options, unique_fd guest,
                 caf::actor owner);
  ~session_client() override;

  const char* name() const override { return "vgpu.session-client"; }
  void act() override;

private:
  using clock = std::chrono::steady_clock;
  struct forwarding;

  // the program
  void wait();
  void look_or_sleep(bool reads, std::chrono::milliseconds at_most);
  std::chrono::milliseconds patience() const;
  void read_mailbox();
  void read_guest();
  void greet(packet& hello);
  void refuse(const control::refusal& why);
  void tell_watched(const guest::watched& what);
  void tell_waiting(const std::string& why);
  void write_ticket();
  void welcome();
  void end(const std::string& why);

  // leases
  void serve(const control::lease& lease);
  void resize(const control::lease& lease);
  bool fence();
  void lose_session(const std::string& why);
  data::attach make_attach(std::uint64_t answers_seen) const;
  void suspect(const std::string& why);
  void report_progress(const data::progress& x);
  void tell(control::body what);
  control::event make_event(std::string kind, std::string text) const;

  // a worker on this host
  bool attach_mapped();
  void note_host_apart(bool apart);
  bool maps_log() const;
  void read_worker();
  // a worker elsewhere
  link_options data_link(std::string endpoint) const;
  void attach_forwarded();
  void attach();
  void read_connection();
  void open_second();
  void join_second();
  void lose_second(bool unreachable);
  void read_socket();
  bool hear(link_socket& from);
  void take(const data::head& head, const parcel_ptr& in);
  void on(const data::attached& x);
  void on(const data::progress& x);
  void on(const data::answer& x, const parcel_ptr& in);
  void arrived(const data::answer& x, const parcel_ptr& in);
  bool is_awaited(call_number call);
  void deliver(const data::answer& x, std::span<const std::byte> payload);
  void merge_zero_copy(std::span<const std::byte> payload);
  bool view_host();
  void write_host(std::uint64_t offset, std::span<const std::byte> bytes);
  void gather_calls();
  void forward();
  void keep_alive();
  void send(data::body body, std::span<const std::byte> payload = {});
  bool send_by(link_socket& way, data::body body,
               std::span<const std::byte> payload = {});
  // none
  void fail_calls();

  // a session that moves (session_client_state.cpp)
  void pause(const control::pause_session& order);
  void take_movement(const data::head& head, std::vector<unique_fd> files);
  void on(const data::checkpointing& x);
  void on(const data::checkpointed& x, std::vector<unique_fd> files);
  void on(const data::state_part& x, const parcel_ptr& in);
  void on(const data::state_wanted& x);
  void on(const data::differs& x);
  void look_at_movement();
  bool is_state_here();
  bool waits_before(std::uint64_t position) const;
  void hold_state();
  void offer_lending();
  void look_at_former();
  status spill(unique_fd& file, std::uint64_t bytes) const;
  void cancel_movement(const std::string& why);
  void tell_worker(data::body what);
  bool sleeps_until_called() const {
    return ((let_go_ && held_) || aside_) && !woken_;
  }
  void restored();

  // a worker that is put aside (session_client_checkpoint.cpp)
  void leave_aside();
  void bring_back(const control::bring_back& order);
  void on(const data::back& x);

  // snapshots (session_client_snapshots.cpp)
  bool is_protected() const;
  bool may_snapshot() const;
  bool wants_snapshots() const;
  std::chrono::milliseconds until_snapshot() const;
  void look_at_snapshots();
  std::uint64_t uncovered() const;
  void look_at_filling();
  void expect_state(std::uint64_t bytes);
  void take_notice(std::span<const std::uint64_t> words);
  void note_filling();
  void note_sharing();
  void begin_movement(bool snapshot);
  void begin_snapshot();
  std::chrono::milliseconds phase_within() const;
  status receive_snapshot(data::checkpointed& x);
  void keep_snapshot();
  void give_back_places(std::size_t newest, bool on_disk);
  void note_travel(std::uint64_t bytes);
  void report_snapshot(std::uint64_t bytes, std::chrono::nanoseconds pause);
  /// `lasting`: no state can be described or kept, as far as one can tell.
  void give_up_snapshot(const std::string& why, bool lasting);
  void end_snapshot();
  void choose_beginning();
  bool recover_snapshot();

  zmq::context_t& zmq_;
  session_client_options options_;
  unique_fd guest_;
  caf::actor owner_;
  bool running_ = true;
  /// What wait() found to have something.
  struct readiness {
    bool guest = false;
    bool worker = false;
    bool messages = false;
    bool connections = false;
  };
  readiness ready_;
  std::vector<pollfd> items_; // of one wait
  busy_poll busy_poll_{options_.busy_poll};
  std::string host_ = host_id_once();
  static std::string host_id_once();

  control::program program_;
  control::specification specification_;
  bool hears_waiting_ = false;
  std::shared_ptr<session_area> area_;
  unique_fd doorbell_;
  state_places places_;
  std::optional<log_reader> reader_;

  std::optional<control::lease> lease_;
  std::optional<control::lease> former_; // may still be executed by its worker
  bool resumed_ = false;
  bool lost_ = false;
  bool suspected_ = false;
  std::string last_suspicion_;
  bool greeted_ = false;
  bool moved_ = false; // this epoch's worker replays a former one's calls
  std::uint64_t replay_from_ = 0;
  std::uint64_t replay_until_ = 0;
  std::uint64_t charged_before_ = 0; // by workers of former epochs
  std::uint64_t calls_before_ = 0;   // of the session, that the snapshot covers
  clock::time_point replay_began_{};
  bool replay_told_ = true;
  bool answer_told_ = true;
  slot_index awaited_in_ = 1;         // the last call that came in parts
  std::optional<mapping> host_view_;  // empty: there are no addresses for it
  std::optional<mapping> host_known_; // view_host_known(); empty likewise

  /// The worker was asked for the session's state.
  struct movement {
    clock::time_point began;
    std::uint64_t order = 0;
    /// What its worker is at, and since when; nothing until it says so.
    std::optional<data::checkpointing::phase> phase{};
    clock::time_point since;
    clock::time_point stands;  // since when calls are not executed
    bool copied_ahead = false; // and its worker will keep its file up
    std::optional<data::checkpointed> stopped;
    // From a worker elsewhere:
    std::optional<state_inflow> inflow;
    std::optional<snapshot_inflow> arriving;
    unique_fd file;        // from one on this host,
    unique_fd lent;        // with the memory that it lends
    bool snapshot = false; // the worker goes on where it is
    // Of a snapshot: where it goes, in memory or on the disk.
    std::array<std::size_t, 2> places{};
  };
  /// A state that no worker has yet taken over.
  struct held_state {
    unique_fd file;
    unique_fd lent;             // a parcel of what it lends, if anything
    std::size_t lent_count = 0; // descriptors in it
    unique_fd offered;          // a copy of it, for the worker that attaches
    std::uint64_t bytes = 0;
    std::uint64_t position = 0;
    clock::time_point began; // when its worker stopped
    bool snapshot = false;   // calls were made since
    unsigned tries = 0;      // workers that were to make it again
  };
  std::optional<movement> movement_;
  std::optional<held_state> held_;
  /// The worker is aside, as it was; it still is the session's.
  struct aside_worker {
    std::uint64_t bytes = 0;    // that its GPUs were rid of
    std::uint64_t position = 0; // the next call
    bool ordered = false;       // back,
    clock::time_point began{};  // then
  };
  std::optional<aside_worker> aside_;
  bool let_go_ = false; // the worker that the state is of serves no more:
  epoch gave_way_;      // that of this epoch
  bool woken_ = false;  // the manager knows that the program calls

  clock::time_point next_snapshot_{};
  std::chrono::milliseconds retry_after_{200};
  clock::time_point rested_{};       // after the last one; earlier none is due
  std::uint64_t snapshot_after_ = 0; // bytes of calls
  bool fills_ = false;               // the journal is to be trimmed
  bool snapshot_useless_ = false;    // no worker could make it again
  bool shares_ = false;              // with another process; it was told
  std::string snapshot_trouble_;     // that was told
  std::optional<control::pause_session> postponed_; // until a snapshot is there
  struct {
    std::uint64_t count = 0;
    std::uint64_t travelled = 0; // bytes, from a worker elsewhere
    std::chrono::nanoseconds longest{0};
  } snapshots_; // since the last event that told of them
  clock::time_point snapshots_told_{};

  unique_fd worker_; // of a mapped worker
  std::unique_ptr<forwarding> forwarding_;
  clock::time_point last_contact_{}; // may have renewed a worker's lease
  clock::time_point next_keepalive_{};
};

} // namespace vgpu
