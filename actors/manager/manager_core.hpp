// The manager's state machine: messages and time in, messages out. Knows no
// actor, no socket and no clock.
#pragma once

#include "actors/link/directory.hpp"
#include "actors/link/protocol.hpp"
#include "actors/manager/election.hpp"
#include "actors/manager/event_log.hpp"
#include "actors/manager/store.hpp"
#include "actors/records/event_tally.hpp"
#include "actors/records/records.hpp"
#include "policies/lifecycle/balance.hpp"
#include "policies/lifecycle/memory_swapping.hpp"
#include "policies/lifecycle/reclaim.hpp"
#include "policies/placement/admission.hpp"
#include "policies/placement/constraints.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/placement_index.hpp"
#include "policies/placement/views.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace vgpu {

struct manager_options {
  /// Where it listens, for the status.
  std::string endpoint;
  std::chrono::milliseconds beat_every{100};
  policy::liveness_options liveness;
  policy::restart_options restart;
  policy::reclaim_options reclaim;
  policy::swapping_options swapping;
  /// How often it looks for pGPUs that have too much to do; unset, never.
  std::optional<std::chrono::milliseconds> balance_every{1'000};
  /// In so many looks in a row one must have been too hot.
  unsigned balance_samples = 3;
  policy::balance_options balance;
  /// Where a vGPU goes that has no place. One's own policy, where it is set,
  /// decides alone; moves by command or for balance follow their own rules.
  policy::placement_strategy placement =
      policy::placement_strategy::least_loaded;
  std::shared_ptr<policy::placement_policy> own_placement;
  std::string placement_name = "least-loaded"; // for the status
  /// How long a client may be without a connection before its sessions close.
  std::chrono::milliseconds client_grace{5'000};
  /// After a restart: how long sessions wait for their client, and nodes for
  /// themselves.
  std::chrono::milliseconds restart_grace{10'000};
  std::chrono::milliseconds node_grace{2'000};
  /// How long a node may take to start a worker.
  std::chrono::milliseconds start_within{15'000};
  /// Failures in a row after which a session that never ran is refused.
  unsigned first_attempts = 3;
  /// It ends after so long without a client or a session; unset, never.
  std::optional<std::chrono::milliseconds> end_when_idle;
  /// By what right it leads; that of a manager which is alone, unless it was
  /// elected.
  mandate right;
  /// Secret numbers, for tokens and the incarnation.
  std::function<std::uint64_t()> random;
  /// Seconds since 1970.
  std::function<double()> wall_time;
};

/// One thread. Every call gives the time, which never goes back.
class manager_core {
public:
  using sender =
      std::function<void(const std::string& peer, control::envelope what)>;

  /// `kept` may be null: then nothing outlives this manager.
  manager_core(manager_options options, std::shared_ptr<store> kept,
               sender send, time_point now);
  /// Writes down what was used.
  ~manager_core();
  manager_core(const manager_core&) = delete;
  manager_core& operator=(const manager_core&) = delete;

  void on_message(const std::string& peer, const control::envelope& what,
                  time_point now);
  /// The connection to `peer` is gone.
  void on_gone(const std::string& peer, time_point now);
  /// To be called at next_deadline(), or any time.
  void on_tick(time_point now);
  /// When something is due next, if anything is; at most too early.
  std::optional<time_point> next_deadline() const noexcept { return due_; }

  /// What it would have kept for its successors, where that is not what is.
  std::optional<etcd::record> to_keep() const;
  /// That was done.
  void kept(const etcd::record& x) { options_.right.kept = x; }

  /// Whether a command asked it to end.
  bool stopping() const noexcept { return stopping_; }
  std::uint64_t incarnation() const noexcept { return incarnation_; }
  /// As `vgpu status --json` prints it.
  std::string status_json() const;
  /// What users used in all: usage_book::summary() by user, as a text.
  std::string usage_json() const;
  /// Events since this manager began.
  const event_tally& tallies() const noexcept { return tallies_; }
  /// What placements go by is kept up to date while things change; where it
  /// differs from what is so, for a test. Empty: nowhere.
  std::string index_difference() const;

private:
  struct peer_record {
    std::string name;
    control::role as = control::role::command;
  };
  /// A worker that a node brought along and that no record names yet.
  struct unclaimed_worker {
    std::string node;
    control::running_session running;
    time_point until;
  };
  /// What is said of an event besides its kind and text.
  struct about {
    std::string node;
    session_id session;
    vgpu_id vgpu;
    vgpu::epoch epoch;
    double milliseconds = 0;
  };

  struct queued {
    session_id id;
    bool promised = true;
  };
  /// For whom others leave a node, and which of its pGPUs.
  struct departures {
    std::set<session_id> for_whom;
    std::set<std::uint32_t> pgpus;

    void add(session_id whom, const policy::place& left) {
      for_whom.insert(whom);
      pgpus.insert(left.pgpus.begin(), left.pgpus.end());
    }
  };
  using departures_by_node = std::map<std::string, departures>;
  /// So many are told to leave, of idle ones, and for so many others, before
  /// other messages are looked at.
  static constexpr std::size_t most_begun = 256;

  void restore_sessions();

  // -- manager_terms.cpp: one leader after another ----------------------------
  void begin_term();
  vgpu::epoch epoch_after(vgpu::epoch x) const;
  status take_numbers(session_record& to);
  void note_numbers(session_id session, vgpu_id vgpu);
  bool nodes_may_come() const;
  void retry_held();

  // -- manager_core.cpp: peers and commands -----------------------------------
  void handle(const std::string& peer, const control::envelope& from,
              const control::hello& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::event& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::inject_fault& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::status_request& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::events_request& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::shutdown& x);
  bool may_say(const std::string& peer, const control::envelope& what);
  void answer(const std::string& peer, std::uint64_t request,
              control::body what);
  void refuse(const std::string& peer, const control::envelope& what,
              fault why);
  status check_node(const std::string& name) const;
  status check_pgpu(const std::string& node, std::uint32_t ordinal) const;
  void emit(std::string kind, std::string text, about what);
  void emit(control::event what);
  void serve_waiters();
  void look_idle();
  void due(time_point when);
  void find_next_deadline();

  // -- manager_nodes.cpp ------------------------------------------------------
  void handle(const std::string& peer, const control::envelope& from,
              const control::register_node& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::node_beat& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::worker_started& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::worker_exited& x);
  void node_leaves(const std::string& name);
  void lose_node(node_record& node, node_record::stage state,
                 const std::string& why);
  void take_inventory(node_record& node, const control::register_node& x);
  void reconcile(const node_record& node, const control::register_node& x);
  void reconcile_listed(const node_record& node,
                        const control::running_session& x);
  void fence(const std::string& node, session_id session, vgpu::epoch stale,
             const std::string& text);
  bool send_to_node(const std::string& name, control::body what);
  bool alive(const std::string& node) const;
  bool on_one_host(const std::string& node, const std::string& other) const;
  std::string node_of(const std::string& peer) const;

  // -- manager_movement.cpp ---------------------------------------------------
  void handle(const std::string& peer, const control::envelope& from,
              const control::suspend_vgpu& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::resume_vgpu& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::migrate_vgpu& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::drain_node& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::paused& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::wake_session& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::restored& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::worker_prepared& x);
  session_record* session_of(const std::string& peer,
                             const control::envelope& from, vgpu_id id);
  status may_move(const session_record& x) const;
  result<std::optional<policy::place>>
  target_of(const session_record& x, const control::migrate_vgpu& what) const;
  void order_pause(session_record& x, session_movement what);
  bool prepare(session_record& x);
  void ask_to_pause(session_record& x);
  void tell_to_pause(const session_record& x);
  void tell_to_hold(const session_record& x);
  void gave_state(session_record& x, const control::paused& how);
  void take_movement_up(session_record& x, vgpu::epoch served);
  void arrived(session_record& x, std::uint64_t bytes, double milliseconds);
  void suspended(session_record& x, const control::paused& how);
  void wake(session_record& x);
  void resume(session_record& x, const std::string& reason);
  std::variant<policy::place, policy::no_place> choose_for(session_record& x);
  /// Tells who waits; an empty `failure`: it is done.
  void finish_movement(session_record& x, const std::string& failure);
  void movement_met_loss(session_record& x, const std::string& reason);
  void look_at_movements();

  // -- manager_checkpoint.cpp
  // ------------------------------------------------------
  void bring_back(session_record& x);
  void take_aside(session_record& x, const control::running_session& worker);
  bool lost_aside(session_record& x, const std::string& why);

  // -- manager_sessions.cpp ---------------------------------------------------
  void handle(const std::string& peer, const control::envelope& from,
              const control::acquire& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::adopt& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::suspect& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::close_session& x);
  session_record* owned(const std::string& peer, const control::envelope& from,
                        session_id id);
  void suspended_unheard(session_record& x, const control::adopt& told);
  status check_token(const session_record& x, const control::adopt& claim);
  session_record* adopt_unknown(const std::string& peer,
                                const control::envelope& from,
                                const control::adopt& x);
  void take_running(session_record& x, const std::string& node,
                    const control::running_session& running);
  void bind_client(session_record& x, const std::string& peer);
  void client_gone(const std::string& peer);
  void client_back(const std::string& peer, const std::string& name);
  void place(session_record& x);
  void wait_for_place(session_record& x, std::string why);
  void start(session_record& x, policy::place where);
  void displace(session_record& x, const std::string& reason, bool failed);
  void look_unexplained();
  void give_up(session_record& x, const std::string& why);
  void give_lease(session_record& x);
  void stop_waiting(session_record& x, const std::string& why);
  void end_session(session_id id, const std::string& why);
  void retry_waiting();
  void save(const session_record& x);
  std::uint64_t quota_of(const control::specification& spec,
                         const policy::place& where);
  session_record& add_session(session_record x);
  policy::demand demand_of(const session_record& x) const;
  about about_session(const session_record& x) const;

  // -- manager_placement.cpp --------------------------------------------------
  policy::cluster_view view() const;
  policy::cluster_view view_for_placement() const;
  policy::placement_index& index();
  void cluster_changed();
  static std::optional<counted_place> place_to_count(const session_record& x);
  void recount(session_record& x);
  void strike_out(session_record& x);
  const policy::cluster_extent& extent();

  // -- manager_resize.cpp -----------------------------------------------------
  void handle(const std::string& peer, const control::envelope& from,
              const control::set_vgpu& x);
  void handle(const std::string& peer, const control::envelope& from,
              const control::set_policy& x);
  status check_resize(const session_record& x, const control::set_vgpu& to);
  void resize(session_record& x, const control::set_vgpu& to);
  void quota_known(session_record& x);

  // -- manager_reclaim.cpp ----------------------------------------------------
  void note_activity(session_record& x);
  policy::reclaim_decision idle_ones() const;
  void reclaim_idle();
  void reclaim_refused(session_record& x);

  // -- manager_swapping.cpp ---------------------------------------------------
  policy::queue_rank rank_of(const session_record& x) const;
  std::vector<queued> queue() const;
  double left_to_promise() const;
  departures_by_node who_leaves() const;
  bool may_be_left(const policy::place& where,
                   const departures_by_node& leaving) const;
  std::vector<policy::resident>
  residents(const departures_by_node& leaving) const;
  void take_turns_with_memory();
  void note_preempted(session_record& x, const control::paused& how);
  void has_its_turn(session_record& x, double milliseconds);
  void begin_turn(session_record& x);
  void hear_of_turns(session_record& x, const control::memory_turns& told);

  // -- manager_balance.cpp ----------------------------------------------------
  void measure(session_record& x);
  void measure_loads();
  policy::balance_view view_for_balance() const;
  void look_at_balance();

  // -- manager_usage.cpp ------------------------------------------------------
  void handle(const std::string& peer, const control::envelope& from,
              const control::usage_request& x);
  void open_account(const session_record& x);
  void note_use(const control::session_load& x);
  void take_last_words(const std::vector<control::session_load>& ended);
  void save_usage();
  void save_usage(session_id only);

  template <class T>
  void handle(const std::string& peer, const control::envelope& from,
              const T& x);

  manager_options options_;
  std::shared_ptr<store> store_;
  sender send_;
  time_point now_;
  time_point started_;
  std::uint64_t incarnation_ = 0;
  bool stopping_ = false;
  bool came_back_ = false; // its store tells of an earlier life
  std::optional<time_point> idle_since_;
  std::optional<time_point> due_;

  std::map<std::string, peer_record> peers_;
  std::map<std::string, node_record> nodes_;
  std::map<session_id, session_record> sessions_;
  std::set<std::pair<std::uint64_t, session_id>> groups_; // who is in one
  std::map<session_id, unclaimed_worker> unclaimed_;
  /// Kept for who waits at the head of the queue, while those behind it are
  /// looked at.
  std::vector<policy::place> kept_;
  std::unique_ptr<policy::placement_index> index_; // null: to be made anew
  std::optional<policy::cluster_extent> extent_;
  /// Of a leader whose nodes are still on their way: what cannot be had yet.
  std::vector<std::pair<std::string, control::envelope>> held_;
  std::set<std::string> drained_; // nodes that take no sessions
  std::uint64_t last_session_ = 0;
  std::uint64_t last_vgpu_ = 0;
  directory directory_;
  event_log events_;
  event_tally tallies_;
  usage_book usage_;
  std::optional<time_point> save_usage_at_;
  std::optional<time_point> balance_at_; // the next look
  std::optional<time_point> turns_end_;  // of memory, for who waits
  policy::hot_spot hot_;
};

} // namespace vgpu
