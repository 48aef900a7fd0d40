#include "actors/manager/manager_core.hpp"
#include "actors/link/printable.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <type_traits>

namespace vgpu {

using control::role;

namespace {

constexpr std::size_t longest_name = 200;
constexpr std::size_t longest_kind = 40;
constexpr std::size_t longest_event = 1'024;

const char* prefix_of(role x) {
  switch (x) {
  case role::node:
    return "node/";
  case role::client:
    return "client/";
  case role::worker:
    return "worker/";
  case role::command:
    return "command";
  }
  return "?";
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
         c == '/' || c == ':' || c == '@';
}

bool good_name(const std::string& name, role as) {
  std::string prefix = prefix_of(as);
  return name.starts_with(prefix) && name.size() <= longest_name &&
         (as == role::command || name.size() > prefix.size()) &&
         std::all_of(name.begin(), name.end(), is_plain);
}

/// Who may say what; hello and refusal may come from everybody.
template <class T>
constexpr bool said_by(role as) {
  using namespace control;
  if constexpr (std::is_same_v<T, register_node> ||
                std::is_same_v<T, node_beat> ||
                std::is_same_v<T, worker_started> ||
                std::is_same_v<T, worker_exited> ||
                std::is_same_v<T, worker_prepared>)
    return as == role::node;
  else if constexpr (std::is_same_v<T, acquire> || std::is_same_v<T, adopt> ||
                     std::is_same_v<T, suspect> || std::is_same_v<T, paused> ||
                     std::is_same_v<T, wake_session> ||
                     std::is_same_v<T, restored> ||
                     std::is_same_v<T, close_session>)
    return as == role::client;
  else if constexpr (std::is_same_v<T, event>)
    return true;
  else if constexpr (std::is_same_v<T, set_vgpu> ||
                     std::is_same_v<T, set_policy>)
    return as == role::command;
  else if constexpr (std::is_same_v<T, shutdown>)
    return as == role::command || as == role::node;
  else
    return std::is_same_v<T, inject_fault> || std::is_same_v<T, suspend_vgpu> ||
           std::is_same_v<T, resume_vgpu> || std::is_same_v<T, migrate_vgpu> ||
           std::is_same_v<T, drain_node> || std::is_same_v<T, status_request> ||
           std::is_same_v<T, events_request> ||
           std::is_same_v<T, usage_request>;
}

} // namespace

manager_core::manager_core(manager_options options, std::shared_ptr<store> kept,
                           sender send, time_point now)
    : options_(std::move(options)), store_(std::move(kept)),
      send_(std::move(send)), now_(now), started_(now),
      incarnation_(options_.random()) {
  look_idle();
  find_next_deadline();
  if (store_) {
    const auto& past = store_->state();
    last_session_ = past.last_session;
    last_vgpu_ = past.last_vgpu;
    events_.restore(past.events);
    usage_ = past.usage;
    drained_ = past.drained;
  }
  if (options_.right.term != 0)
    begin_term();
  if (store_)
    restore_sessions();
  came_back_ = last_session_ != 0 || events_.last() != 0;
  if (options_.right.term != 0)
    emit("manager-leads",
         options_.endpoint + " leads, term " +
             std::to_string(options_.right.term) + ", with " +
             std::to_string(sessions_.size()) + " sessions from its store",
         {});
  else if (came_back_)
    emit("manager-restarted",
         "the manager is back with " + std::to_string(sessions_.size()) +
             " sessions from its store",
         {});
}

void manager_core::restore_sessions() {
  std::vector<session_id> unserved;
  for (const auto& [id, saved] : store_->state().sessions) {
    // Its client has no lease to show, and asks anew.
    if (saved.stage == session_stage::waiting && !saved.had_lease) {
      unserved.push_back(id);
      continue;
    }
    auto& x = add_session(saved);
    x.from_before = true;
    x.orphan_until = now_ + options_.restart_grace;
    x.retry_at = now_;
    if (x.stage == session_stage::waiting || x.stage == session_stage::starting)
      x.displaced_at = now_;
    x.start_by = now_ + options_.restart_grace;
    due(*x.orphan_until);
    if (!x.placed() || nodes_.contains(x.where.node))
      continue;
    auto& node = nodes_[x.where.node];
    node.info.name = x.where.node;
    node.expected_until = now_ + options_.node_grace;
    due(node.expected_until);
  }
  for (auto id : unserved) {
    usage_.close(id);
    store_->forget(id);
  }
}

manager_core::~manager_core() {
  save_usage();
}

// -- messages -----------------------------------------------------------------

void manager_core::on_message(const std::string& peer,
                              const control::envelope& what, time_point now) {
  now_ = now;
  if (!may_say(peer, what))
    return;
  std::visit([&](const auto& x) { handle(peer, what, x); }, what.body);
}

/// What nobody says to a manager.
template <class T>
void manager_core::handle(const std::string& peer,
                          const control::envelope& from, const T&) {
  if constexpr (std::is_same_v<T, control::refusal>)
    spdlog::warn("{} refuses: {}", from.from,
                 std::get<control::refusal>(from.body).reason);
  else if constexpr (!std::is_same_v<T, control::done>)
    refuse(peer, from,
           {CUDA_ERROR_NOT_SUPPORTED,
            std::string{"a manager takes no "} + control::name_of(from.body)});
}

bool manager_core::may_say(const std::string& peer,
                           const control::envelope& what) {
  if (std::holds_alternative<control::hello>(what.body))
    return true;
  auto i = peers_.find(peer);
  if (i == peers_.end()) {
    refuse(peer, what, {CUDA_ERROR_NOT_PERMITTED, "say hello first"});
    return false;
  }
  if (what.from != i->second.name) {
    refuse(peer, what,
           {CUDA_ERROR_NOT_PERMITTED, "this connection belongs to " +
                                          i->second.name + ", not to " +
                                          what.from});
    return false;
  }
  auto as = i->second.as;
  auto allowed = std::visit(
      [as](const auto& x) {
        using type = std::decay_t<decltype(x)>;
        return said_by<type>(as) || std::is_same_v<type, control::refusal> ||
               std::is_same_v<type, control::done>;
      },
      what.body);
  if (!allowed)
    refuse(peer, what,
           {CUDA_ERROR_NOT_PERMITTED,
            what.from + " may not say " + control::name_of(what.body)});
  return allowed;
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::hello& x) {
  auto version = std::min(x.newest, control::protocol_version);
  if (version < std::max(x.oldest, control::oldest_version) ||
      x.oldest > x.newest)
    return refuse(peer, from,
                  {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                   "this manager speaks versions " +
                       std::to_string(control::oldest_version) + " to " +
                       std::to_string(control::protocol_version) + ", " +
                       from.from + " (" + x.software + ") " +
                       std::to_string(x.oldest) + " to " +
                       std::to_string(x.newest) +
                       "; install the same release on both sides"});
  if (!good_name(from.from, x.as))
    return refuse(peer, from,
                  {CUDA_ERROR_INVALID_VALUE,
                   "a name of this role begins with " +
                       std::string{prefix_of(x.as)} +
                       " and has letters, digits, and - _ . : / @"});
  peers_[peer] = {from.from, x.as};
  control::welcome back;
  back.version = version;
  back.software = "vgpu";
  back.incarnation = incarnation_;
  back.beat_every_ms = static_cast<std::uint32_t>(options_.beat_every.count());
  back.lost_after_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(
          options_.liveness.lost_after)
          .count());
  back.term = options_.right.term;
  answer(peer, from.request, back);
  if (x.as == role::client)
    client_back(peer, from.from);
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::event& x) {
  auto what = x;
  what.kind.resize(std::min(what.kind.size(), longest_kind));
  what.text.resize(std::min(what.text.size(), longest_event));
  if (what.time == 0)
    what.time = options_.wall_time();
  emit(std::move(what));
  if (from.request != 0)
    answer(peer, from.request, control::done{});
}

status manager_core::check_node(const std::string& name) const {
  if (alive(name))
    return {};
  return fault{CUDA_ERROR_INVALID_VALUE,
               "no node '" + printable(name) +
                   "' is alive; `vgpu status` lists the nodes"};
}

/// Whether a command may name this pGPU.
status manager_core::check_pgpu(const std::string& node,
                                std::uint32_t ordinal) const {
  if (auto ok = check_node(node); !ok)
    return ok;
  const auto& pgpus = nodes_.at(node).info.pgpus;
  if (std::none_of(pgpus.begin(), pgpus.end(),
                   [&](const auto& x) { return x.ordinal == ordinal; }))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "node " + node + " has no pGPU " + std::to_string(ordinal)};
  return {};
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::inject_fault& x) {
  if (auto ok = check_pgpu(x.node, x.pgpu); !ok)
    return refuse(peer, from, ok.why());
  if (x.kind != "lost" && x.kind != "hang" && x.kind != "ecc")
    return refuse(peer, from,
                  {CUDA_ERROR_INVALID_VALUE,
                   "no fault '" + x.kind + "': give lost, hang or ecc"});
  emit("fault-injected",
       "pGPU " + std::to_string(x.pgpu) + " of " + x.node + ": " + x.kind,
       {x.node, {}, {}, {}});
  send_to_node(x.node, x);
  answer(peer, from.request, control::done{});
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::status_request&) {
  answer(peer, from.request, control::status_text{status_json()});
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::events_request& x) {
  // A number from before the events were lost: begin again.
  auto after = x.after > events_.last() ? 0 : x.after;
  constexpr auto longest_wait = std::chrono::minutes{10};
  auto until = now_ + std::min<policy::duration>(
                          std::chrono::milliseconds{x.wait_ms}, longest_wait);
  if (after < events_.last() || x.wait_ms == 0 ||
      !events_.wait({peer, from.request, after, until}))
    answer(peer, from.request, control::events{events_.after(after)});
  else
    due(until);
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::shutdown&) {
  answer(peer, from.request, control::done{});
  if (auto node = node_of(peer); !node.empty())
    node_leaves(node);
  else
    stopping_ = true;
}

void manager_core::on_gone(const std::string& peer, time_point now) {
  now_ = now;
  events_.drop(peer);
  auto entry = peers_.extract(peer);
  if (entry.empty())
    return;
  std::erase_if(held_, [&](const auto& x) { return x.first == peer; });
  if (entry.mapped().as == role::client)
    client_gone(peer);
  for (auto& [name, node] : nodes_)
    if (node.peer == peer && node.state == node_record::stage::alive) {
      node.seen.closed = now_;
      cluster_changed();
      due(policy::lost_at(node.seen, options_.liveness));
    }
}

// -- time ---------------------------------------------------------------------

void manager_core::on_tick(time_point now) {
  now_ = now;
  for (auto& [name, node] : nodes_) {
    if (node.state == node_record::stage::alive &&
        policy::is_lost(node.seen, now_, options_.liveness))
      lose_node(node, node_record::stage::lost,
                node.seen.closed ? "its connection closed" : "it fell silent");
    else if (node.state == node_record::stage::expected &&
             now_ >= node.expected_until)
      lose_node(node, node_record::stage::lost,
                "it did not come back after the manager's restart");
  }
  std::vector<session_id> closing;
  std::vector<session_id> late;
  for (const auto& [id, x] : sessions_) {
    if (x.orphan_until && now_ >= *x.orphan_until)
      closing.push_back(id);
    else if (x.stage == session_stage::starting && now_ >= x.start_by)
      late.push_back(id);
  }
  for (auto id : closing)
    end_session(id, "its client is gone");
  for (auto id : late)
    if (auto i = sessions_.find(id); i != sessions_.end())
      displace(i->second, "the worker did not start in time", true);
  std::erase_if(unclaimed_, [&](const auto& entry) {
    const auto& [id, x] = entry;
    if (now_ < x.until)
      return false;
    send_to_node(x.node, control::stop_worker{id, x.running.epoch,
                                              "nobody claims this session"});
    return true;
  });
  if (save_usage_at_ && now_ >= *save_usage_at_)
    save_usage();
  look_unexplained();
  look_at_movements();
  reclaim_idle();
  retry_held();
  retry_waiting();
  take_turns_with_memory();
  look_at_balance();
  serve_waiters();
  look_idle();
  find_next_deadline();
}

void manager_core::look_idle() {
  if (!options_.end_when_idle)
    return;
  auto is_client = [](auto& entry) { return entry.second.as == role::client; };
  if (!sessions_.empty() ||
      std::any_of(peers_.begin(), peers_.end(), is_client))
    idle_since_.reset();
  else if (!idle_since_)
    idle_since_ = now_;
  else if (now_ >= *idle_since_ + *options_.end_when_idle)
    stopping_ = true;
}

void manager_core::due(time_point when) {
  if (!due_ || when < *due_)
    due_ = when;
}

void manager_core::find_next_deadline() {
  due_.reset();
  if (idle_since_)
    due(*idle_since_ + *options_.end_when_idle);
  for (const auto& [name, node] : nodes_) {
    if (node.state == node_record::stage::alive)
      due(policy::lost_at(node.seen, options_.liveness));
    else if (node.state == node_record::stage::expected)
      due(node.expected_until);
  }
  for (const auto& [id, x] : sessions_) {
    if (x.orphan_until)
      due(*x.orphan_until);
    if (x.stage == session_stage::starting)
      due(x.start_by);
    if (x.moving && !x.moving->taken)
      due(x.moving->until);
    if (x.explained_by && !x.client_peer.empty())
      due(*x.explained_by);
    if (x.stage == session_stage::waiting && x.retry_at > now_)
      due(x.retry_at);
    if (x.stage == session_stage::waiting && x.wait_until && !x.had_lease)
      due(*x.wait_until);
  }
  for (const auto& [id, x] : unclaimed_)
    due(x.until);
  if (auto until = events_.next_deadline())
    due(*until);
  if (save_usage_at_)
    due(*save_usage_at_);
  if (balance_at_)
    due(*balance_at_);
  if (turns_end_)
    due(*turns_end_);
  if (!held_.empty())
    due(started_ + options_.node_grace);
  auto idle = idle_ones();
  if (!idle.now.empty())
    due(now_); // more than leave at a time
  if (idle.look_again)
    due(*idle.look_again);
}

// -- answers and events -------------------------------------------------------

void manager_core::answer(const std::string& peer, std::uint64_t request,
                          control::body what) {
  send_(peer, {"manager", request, std::move(what)});
}

void manager_core::refuse(const std::string& peer,
                          const control::envelope& what, fault why) {
  spdlog::warn("refused {} of '{}': {}", control::name_of(what.body),
               printable(what.from), why.what);
  answer(peer, what.request,
         control::refusal{why.code, std::move(why.what), {}});
}

void manager_core::emit(std::string kind, std::string text, about what) {
  control::event out;
  out.time = options_.wall_time();
  out.kind = std::move(kind);
  out.text = std::move(text);
  out.node = std::move(what.node);
  out.session = what.session;
  out.vgpu = what.vgpu;
  out.epoch = what.epoch;
  out.milliseconds = what.milliseconds;
  emit(std::move(out));
}

void manager_core::emit(control::event what) {
  const auto& kept = events_.add(std::move(what));
  tallies_.add(kept);
  spdlog::info("{}: {}{}", kept.kind,
               kept.session
                   ? "session " + std::to_string(kept.session.value) + ": "
                   : "",
               kept.text);
  if (store_)
    store_->save(kept);
  serve_waiters();
}

void manager_core::serve_waiters() {
  for (auto& x : events_.take_served(now_))
    answer(x.peer, x.request, control::events{events_.after(x.after)});
}

} // namespace vgpu
