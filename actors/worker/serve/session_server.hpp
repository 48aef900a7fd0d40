// The worker's data plane: takes a session's calls, from a log that it maps or
// from a client that forwards them, and has them executed.
#pragma once

#include "actors/compute/busy_meter.hpp"
#include "actors/compute/usage_meter.hpp"
#include "actors/link/link_socket.hpp"
#include "actors/link/polling_actor.hpp"
#include "actors/link/reorder_buffer.hpp"
#include "actors/link/unix_socket.hpp"
#include "actors/state/state_transfer.hpp"
#include "actors/worker/execute/executor.hpp"
#include "actors/worker/serve/dry_run.hpp"
#include "actors/worker/serve/forwarded_answers.hpp"
#include "actors/worker/serve/heartbeat_thread.hpp"
#include "schema/base/busy_poll.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace vgpu {

struct session_server_options {
  session_id session;
  vgpu::epoch epoch;
  /// What a client must show.
  std::uint64_t token = 0;
  /// How long calls that came over the network are executed after the client
  /// was last heard: the lease's term.
  std::chrono::milliseconds lease_term{400};
  /// How long to live without any client.
  std::chrono::milliseconds abandoned_after{10'000};
  /// How long one call may take before a client elsewhere is no longer told
  /// that this worker lives, and has the session taken up by another.
  std::chrono::milliseconds longest_call{120'000};
  /// Without, a session whose variables a driver placed has no state.
  begin_dry_run dry_run;
  /// Without, one that cannot be described cannot be suspended.
  begin_aside put_aside;
  /// Of looking for the next call and for the end of work: where the log is
  /// mapped, and where calls are forwarded.
  busy_poll_limits mapped_looks = look_where_scarce;
  busy_poll_limits forwarded_looks;

  /// What a wake-up costs at most: with the log mapped a worker looks so long
  /// also where there are few processors.
  static constexpr busy_poll_limits look_where_scarce{
      std::chrono::microseconds{50}, std::chrono::microseconds{50}};
};

/// What others may know of a running server; updated by its thread.
struct session_gauges {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> position{0};
  std::atomic<std::uint64_t> memory{0};
  std::atomic<std::uint64_t> quota{0}; // bytes a device
  /// control::side_memory
  std::atomic<std::int64_t> variables{-1}, code{-1}, context{-1};
  std::atomic<std::uint32_t> error{0};
  usage_meter account;
  busy_meter busy;

  explicit session_gauges(std::shared_ptr<usage_page> page = nullptr)
      : account(std::move(page)) {}
};

/// Told to the server's owner when it ends, with the reason; `clean` where the
/// program is over, not where somebody else must take the session up.
using server_done = std::function<void(const std::string& why, bool clean)>;

/// One thread, spawned detached. It alone touches the executor, the data
/// plane's ZeroMQ socket and the guest sockets. Takes
/// (inject_fault: device ordinal, device::injected_fault), a quota in bytes
/// (std::uint64_t), and exit messages.
///
/// A worker serves one client at a time: whoever last showed the token of this
/// epoch. It ends when its client says that the session is over, or has been
/// gone for too long.
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

  struct mapped;

  void wait();
  bool look_at_log(clock::time_point began);
  void sleep(clock::time_point began, bool looks);
  std::chrono::milliseconds patience() const;
  void read_mailbox();
  void check_lease();
  void check_abandoned();
  void publish();
  void end(const std::string& why, bool clean = true);
  void check_device();

  // standing still (session_server_state.cpp)
  void stop(const data::checkpoint& x, std::vector<unique_fd> files);
  void go_on();
  bool takes_calls();
  bool lends() const;
  bool begins_dry_run();
  void look_dry_run();
  void begin_state();
  void refuse_state(const std::string& why);
  status begin_copying();
  void copy_on();
  void stop_calls();
  void tell_phase(data::checkpointing::phase now);
  void look_settled();
  void take_state();
  result<std::uint64_t> write_state();
  status choose_file();
  status restore(int file, bool adopt, std::vector<unique_fd> lent = {});
  result<std::uint64_t> write_lending();
  status restore_from(packet& hello, bool adopt);
  void begin_inflow(std::uint64_t bytes);
  void on(const data::state_wanted& x);
  void on(const data::state_part& x, const parcel_ptr& in);
  void ask_for_state();
  void tell_client(data::body body);

  // a process that is put aside (session_server_checkpoint.cpp)
  bool begins_aside(const std::string& why);
  void leave();
  void left();
  void look_aside();
  void come_back();
  void is_back();
  /// Whoever calls the driver now waits.
  bool away() const noexcept { return gait_ >= gait::leaving; }

  // host memory that kernels use in place (session_server_zero_copy.cpp)
  bool kernels_may_write() const;
  void look_at_zero_copy();
  void settle_zero_copy();

  // how far it is (session_server_progress.cpp)
  void begin_replay(const data::attach& by);
  void reached(std::uint64_t position);
  void look_replayed();
  data::progress progress();
  std::uint64_t charge();
  void report(bool replayed);
  void report_differences();

  // mapped
  void accept_guest();
  void read_strangers();
  void read_guest();
  void attach_guest(packet& hello, unique_fd socket);
  status adopt_log(packet& hello, bool restores);
  void read_log();

  // forwarded
  void read_socket();
  void take(const std::string& peer, const data::head& head,
            const parcel_ptr& in);
  void on(const std::string& peer, const data::attach& x);
  void on(const std::string& peer, const data::join& x);
  void on(const data::calls& x, const parcel_ptr& in);
  void queue(const data::calls& x, const parcel_ptr& in);
  bool takes_calls_of(const std::string& peer) const;
  void on(const data::keepalive& x);
  void execute_backlog();
  bool execute_away(const record& what, std::shared_ptr<const void> owner);
  void await_turn();
  void look_after(std::chrono::milliseconds away);
  void look_ahead();
  bool look_ahead_in(std::span<const std::byte> bytes, std::uint64_t& position);
  std::multimap<std::uint64_t, parcel_ptr> calls_put_by() const;
  void put_by(parcel_ptr in);
  bool keep_alive(const parcel_ptr& in);
  void send_answers();
  bool send_answer(const outbound_answer& out);
  data::attached attached();
  void send(const std::string& peer, data::body body);

  bool allowed(const data::head& head) const;

  session_server_options options_;
  std::unique_ptr<executor> exec_;
  std::unique_ptr<link_socket> socket_;
  unique_fd listener_;
  std::shared_ptr<session_gauges> gauges_;
  server_done done_;
  bool running_ = true;

  // Connections that did not show a token yet.
  std::vector<unique_fd> strangers_;
  std::unique_ptr<mapped> mapped_; // stays when its client goes
  bool guest_here_ = false;        // the client of mapped_ lives
  /// What wait() found to have something.
  struct readiness {
    bool listener = false;
    bool strangers = false;
    bool guest = false;
    bool messages = false;
    bool connections = false;
  };
  readiness ready_;
  unsigned unpolled_ = 0; // rounds since all of them were looked at
  bool no_turn_ = false;  // the next call waits for the session's turn
  busy_poll mapped_looks_{options_.mapped_looks};
  busy_poll forwarded_looks_{options_.forwarded_looks};

  std::shared_ptr<forwarded_answers> forwarded_;
  /// Of host memory that kernels use in place: whether what was enqueued before
  /// that call is done, and whether all that it wrote was told.
  struct zero_copy_news {
    /// How often a program that only looks hears of what kernels wrote.
    static constexpr std::chrono::milliseconds every{2};
    std::uint64_t until = 0;
    std::shared_ptr<std::atomic<bool>> done;
    bool told = true;
    clock::time_point again{};
  };
  zero_copy_news zero_copy_;
  std::string client_; // the peer that forwards, empty when there is none
  /// Its other connection, by which every other long answer goes; calls may
  /// come by it.
  std::string second_;
  bool by_second_ = false; // the last one did
  struct calls_in_order {
    data::calls range;
    parcel_ptr in;
  };
  reorder_buffer<calls_in_order> reorder_;
  bool lapsed_ = false;
  bool told_lapsed_ = false;
  clock::time_point heard_ = clock::now();
  std::vector<std::uint64_t> scratch_;

  /// Calls that came and wait, because too many answers are on their way.
  struct range {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> rest;
  };
  std::deque<range> backlog_;
  /// Came while a call was executed, and was not for the stand-in.
  std::deque<parcel_ptr> put_by_;
  std::size_t put_by_bytes_ = 0;
  bool in_call_ = false;             // the stand-in looks after
  std::uint64_t seen_until_ = 0;     // of calls that lie ahead of it
  std::vector<std::uint64_t> ahead_; // one of them
  data::progress known_;             // a little before that call began
  std::uint64_t received_ = 0;       // all calls before it came
  std::uint64_t told_ = 0;           // of these, the client knows

  std::uint64_t position_ = 0; // all calls before it were executed
  std::uint64_t replay_until_ = 0;
  std::uint64_t charged_until_ = 0; // what is done before it was done before
  bool replay_told_ = true;
  bool answer_told_ = true;

  /// At a call's boundary: whether calls are executed.
  enum class gait {
    running,
    dry_run,
    copying,
    stopping,
    settling,
    stopped,
    leaving, // its process is put aside,
    aside,   // is,
    returning
  };
  gait gait_ = gait::running;
  data::checkpoint wanted_;       // while it does not run
  std::vector<unique_fd> places_; // of the client's, where it wants the state
  bool on_disk_ = false;          // it goes to the second of them
  std::unique_ptr<helper> dry_run_;
  std::uint64_t tried_ = 0;        // what was loaded before this call
  std::unique_ptr<helper> helper_; // that puts the process aside, or back
  bool goes_aside_ = false;        // since there is no other way
  bool returns_ = false;           // as soon as it has left
  unsigned failed_returns_ = 0;
  std::string stays_because_; // it could not leave
  clock::time_point left_at_{};
  clock::time_point dry_run_began_{};
  std::shared_ptr<std::atomic<bool>> settled_;
  unique_fd state_; // to be asked for, until the client says go on
  /// Of a client elsewhere: where its snapshots are written, one after the
  /// other.
  unique_fd kept_;
  unique_fd lent_; // a parcel of the memory that goes along
  std::optional<state_inflow> inflow_;
  data::attach replay_wanted_; // of the client that the state comes from
  bool restored_ = false;
  std::string broken_; // why no state could be made here

  // Last: it uses the rest.
  heartbeat_thread heartbeat_thread_;
};

} // namespace vgpu
