#include "actors/supervisor.hpp"

#include "actors/metrics.hpp"
#include "actors/node_status.hpp"
#include "actors/node_usage.hpp"
#include "actors/printable.hpp"
#include "actors/worker_command.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>

namespace vgpu {

namespace {

using self_ptr = caf::stateful_actor<supervisor_state>*;
using stage = supervisor_state::stage;
using worker = supervisor_state::worker;

/// The request number of a registration; nothing else asks the manager.
constexpr std::uint64_t registration = 1;
constexpr std::uint64_t goodbye = 2;
/// How long to wait for the manager to hear that this node leaves.
constexpr auto goodbye_within = std::chrono::milliseconds{500};

std::string describe(const worker& x) {
  return "session " + std::to_string(x.order.session.value) + " epoch " +
         std::to_string(x.order.epoch.value);
}

void tell_manager(self_ptr self, control::body what,
                  std::uint64_t request = 0) {
  auto& st = self->state;
  if (st.connected)
    self->send(st.manager_link,
               std::make_shared<const outgoing>(outgoing{
                   {}, {"node/" + st.opts.name, request, std::move(what)}}));
}

void tell_worker(self_ptr self, const std::string& peer, control::body what,
                 std::uint64_t request = 0) {
  auto& st = self->state;
  self->send(st.worker_link,
             std::make_shared<const outgoing>(outgoing{
                 peer, {"node/" + st.opts.name, request, std::move(what)}}));
}

void report(self_ptr self, const std::string& kind, const std::string& text,
            const control::start_worker& about) {
  control::event out;
  out.kind = kind;
  out.text = text;
  out.node = self->state.opts.name;
  out.session = about.session;
  out.vgpu = about.vgpu;
  out.epoch = about.epoch;
  tell_manager(self, std::move(out));
}

void register_here(self_ptr self) {
  auto& st = self->state;
  control::register_node out{
      st.opts.name, st.opts.host, st.opts.pid, st.opts.pgpus, {}};
  for (const auto& [id, x] : st.workers)
    if (x.stage != stage::stopping)
      out.sessions.push_back({id, x.order.epoch, x.order.vgpu, x.order.pgpus,
                              x.where, x.pid, x.order.share, x.order.limit,
                              x.order.priority});
  tell_manager(self, std::move(out), registration);
}

void finish_stopping(self_ptr self);
void beat(self_ptr self);

// -- workers ------------------------------------------------------------------

/// The worker could not be started: says so, once.
void report_failure(self_ptr self, worker& x, const std::string& why) {
  if (std::exchange(x.reported, true))
    return;
  spdlog::warn("{} could not be started: {}", describe(x), why);
  tell_manager(self, control::worker_started{
                         x.order.session, x.order.epoch, {}, 0, why});
}

void release(self_ptr self, const worker& x) {
  for (auto ordinal : x.order.pgpus)
    if (auto i = self->state.pgpus.find(ordinal); i != self->state.pgpus.end())
      self->send(i->second, pgpu_release{x.order.session, x.order.epoch});
}

policy::share_claim claim_of(double share, double limit,
                             std::int32_t priority) {
  policy::share_claim out;
  out.share = share;
  out.limit = limit;
  out.priority = priority;
  return out;
}

/// Its account, too.
std::shared_ptr<usage_page> start_process(self_ptr self, std::uint64_t tag,
                                          const control::prepare_worker& x) {
  auto& st = self->state;
  auto command = command_of(st.opts, st.boards, x, tag);
  auto account = add_account(command, x.session);
  st.children->start(tag, std::move(command),
                     caf::actor_cast<caf::actor>(self));
  return account;
}

// -- workers that are started before it is known when they are wanted ---------

void drop_prepared(self_ptr self, session_id id) {
  auto& st = self->state;
  auto gone = st.prepared.extract(id);
  if (!gone)
    return;
  auto tag = gone.mapped().tag;
  st.dropped.emplace(tag, id);
  st.children->signal(tag, SIGKILL);
}

/// The one that waits for these orders, if there is one.
std::optional<supervisor_state::prepared_worker>
take_prepared(self_ptr self, const control::start_worker& order) {
  auto& all = self->state.prepared;
  auto i = all.find(order.session);
  if (i == all.end())
    return std::nullopt;
  // It has opened what it was told to open.
  if (i->second.order != preparation_of(order)) {
    drop_prepared(self, order.session);
    return std::nullopt;
  }
  return std::move(all.extract(i).mapped());
}

void tell_prepared(self_ptr self, session_id id, const std::string& failure) {
  tell_manager(self, control::worker_prepared{id, failure});
}

void on_prepare(self_ptr self, const control::prepare_worker& order) {
  auto& st = self->state;
  drop_prepared(self, order.session);
  if (st.stopping || order.pgpus.empty())
    return;
  for (auto ordinal : order.pgpus)
    if (!st.pgpus.contains(ordinal))
      return tell_prepared(self, order.session,
                           "this node has no pGPU " + std::to_string(ordinal));
  auto& x = st.prepared[order.session];
  x.order = order;
  x.tag = ++st.last_tag;
  x.account = start_process(self, x.tag, order);
  x.due = self->clock().now() + st.opts.hello_within;
}

void on_prepared(self_ptr self, session_id id, const std::string& failure) {
  auto& st = self->state;
  auto i = st.prepared.find(id);
  if (i == st.prepared.end() || i->second.ready)
    return;
  i->second.ready = true;
  i->second.due = self->clock().now() + st.opts.orders_within;
  tell_prepared(self, id, failure);
  if (!failure.empty())
    drop_prepared(self, id);
}

/// Whether it was one of these that ended.
bool end_prepared(self_ptr self, const child_exited& gone) {
  auto& st = self->state;
  if (auto dead = st.dropped.extract(gone.tag)) {
    remove_socket(st.opts, dead.mapped(), gone.tag);
    return true;
  }
  auto& all = st.prepared;
  auto i = std::find_if(all.begin(), all.end(), [&](const auto& x) {
    return x.second.tag == gone.tag;
  });
  if (i == all.end())
    return false;
  if (!i->second.ready)
    tell_prepared(self, i->first, "its worker ended at once: " + gone.how);
  remove_socket(st.opts, i->first, gone.tag);
  all.erase(i);
  return true;
}

/// Whether it is one of these that was to begin.
bool begin_prepared(self_ptr self, const child_started& x) {
  auto& all = self->state.prepared;
  auto i = std::find_if(all.begin(), all.end(), [&](const auto& each) {
    return each.second.tag == x.tag;
  });
  if (i == all.end())
    return false;
  i->second.pid = x.pid;
  if (!x.failure.empty()) {
    tell_prepared(self, i->first, x.failure);
    all.erase(i);
  }
  return true;
}

void spawn_process(self_ptr self, worker& x) {
  auto& st = self->state;
  x.stage = stage::starting;
  x.due = self->clock().now() + st.opts.hello_within;
  if (auto ready = take_prepared(self, x.order)) {
    x.tag = ready->tag;
    x.pid = ready->pid;
    x.account = std::move(ready->account);
  } else {
    x.tag = ++st.last_tag;
    x.account = start_process(self, x.tag, preparation_of(x.order));
  }
  std::vector<std::int32_t> seats;
  for (auto ordinal : x.order.pgpus)
    seats.push_back(x.grants.at(ordinal).seat);
  st.children->feed(x.tag, orders_of(x.order, seats));
}

void on_grant(self_ptr self, session_id id, epoch of, const pgpu_answer& got) {
  auto& st = self->state;
  auto i = st.workers.find(id);
  if (i == st.workers.end() || i->second.order.epoch != of ||
      i->second.stage != stage::reserving)
    return;
  auto& x = i->second;
  if (!got.refusal.empty()) {
    report_failure(self, x, got.refusal);
    release(self, x);
    st.workers.erase(i);
    return;
  }
  x.grants[got.ordinal] = got;
  if (--x.grants_missing == 0) {
    spawn_process(self, x);
  }
}

void begin(self_ptr self, const control::start_worker& order) {
  auto& st = self->state;
  worker fresh;
  fresh.order = order;
  fresh.grants_missing = order.pgpus.size();
  auto& x = st.workers[order.session] = std::move(fresh);
  std::string refusal = order.pgpus.empty() ? "the order names no pGPU" : "";
  for (auto ordinal : order.pgpus)
    if (!st.pgpus.contains(ordinal))
      refusal = "this node has no pGPU " + std::to_string(ordinal);
  if (!refusal.empty()) {
    report_failure(self, x, refusal);
    st.workers.erase(order.session);
    return;
  }
  for (auto ordinal : order.pgpus)
    self->request(
            st.pgpus.at(ordinal), caf::infinite,
            pgpu_reserve{order.session, order.epoch, order.quota,
                         claim_of(order.share, order.limit, order.priority)})
        .then([self, id = order.session, of = order.epoch](
                  const pgpu_answer& got) { on_grant(self, id, of, got); });
}

void kill_worker(self_ptr self, worker& x, int signal) {
  auto& st = self->state;
  x.stage = stage::stopping;
  x.reported = true;
  x.due = self->clock().now() + st.opts.stop_grace;
  st.children->signal(x.tag, signal);
}

/// Ends a worker that must not serve any longer; true when it is gone already.
bool stop_worker(self_ptr self, worker& x, int signal) {
  if (x.stage == stage::reserving) {
    release(self, x);
    return true;
  }
  // A second, gentler signal must not prolong the first one's grace.
  if (x.stage != stage::stopping || signal == SIGKILL)
    kill_worker(self, x, signal);
  return false;
}

/// Whether what a worker has until its process is dead is what the next one is
/// to have.
bool has_some_of(const worker& x, const control::start_worker& next) {
  auto& has = x.order.pgpus;
  return std::any_of(has.begin(), has.end(), [&](auto pgpu) {
    return std::count(next.pgpus.begin(), next.pgpus.end(), pgpu) != 0;
  });
}

/// The order that waits for one to be gone that gave way long ago; null: none.
std::optional<control::start_worker>* order_after(supervisor_state& st,
                                                  session_id id) {
  for (auto& [tag, x] : st.leaving)
    if (x.order.session == id && x.next)
      return &x.next;
  return nullptr;
}

/// At once, unless a process on its way out still has some of what it is to
/// have.
void begin_beside(self_ptr self, const control::start_worker& order) {
  for (auto& [tag, x] : self->state.leaving)
    if (x.order.session == order.session && has_some_of(x, order)) {
      x.next = order;
      return;
    }
  begin(self, order);
}

/// The worker executes nothing any more, and nobody waits for its end.
void leave(self_ptr self, std::map<session_id, worker>::iterator i) {
  auto& st = self->state;
  kill_worker(self, i->second, SIGKILL);
  auto gone = st.workers.extract(i);
  auto tag = gone.mapped().tag;
  st.leaving.emplace(tag, std::move(gone.mapped()));
}

void on_start(self_ptr self, const control::start_worker& order) {
  auto& st = self->state;
  if (st.stopping)
    return;
  if (auto* waits = order_after(st, order.session)) {
    if ((*waits)->epoch >= order.epoch)
      return;
    waits->reset();
  }
  auto i = st.workers.find(order.session);
  if (i == st.workers.end())
    return begin_beside(self, order);
  auto& x = i->second;
  auto newest = x.next ? x.next->epoch : x.order.epoch;
  if (order.epoch < newest)
    return report(self, "fenced",
                  "an order to start epoch " +
                      std::to_string(order.epoch.value) +
                      " came late and is refused",
                  order);
  if (order.epoch == newest) {
    if (x.stage == stage::running)
      tell_manager(self, control::worker_started{
                             order.session, order.epoch, x.where, x.pid, {}});
    return;
  }
  // Two workers of one session never serve it at once.
  auto has_process = x.stage == stage::running || x.stage == stage::stopping;
  if (order.former_gave_way && !x.next && has_process) {
    leave(self, i);
    begin_beside(self, order);
  } else if (stop_worker(self, x, SIGKILL)) {
    begin(self, order);
  } else {
    x.next = order;
  }
}

void on_stop(self_ptr self, const control::stop_worker& x) {
  auto& st = self->state;
  if (auto* waits = order_after(st, x.session);
      waits && (*waits)->epoch <= x.epoch)
    waits->reset();
  auto i = st.workers.find(x.session);
  if (i == st.workers.end())
    return;
  auto& found = i->second;
  if (found.next && found.next->epoch <= x.epoch)
    found.next.reset();
  if (found.order.epoch > x.epoch)
    return;
  spdlog::info("stopping the worker of {}: {}", describe(found),
               printable(x.reason));
  if (stop_worker(self, found, SIGTERM))
    st.workers.erase(i);
}

/// What the session holds changes while it runs.
void on_resize(self_ptr self, const control::resize_session& to) {
  auto& st = self->state;
  auto i = st.workers.find(to.session);
  if (i == st.workers.end())
    return;
  // An order that has not begun takes it along.
  auto& x = i->second;
  auto* order = x.next && x.next->epoch == to.epoch ? &*x.next : &x.order;
  if (order->epoch != to.epoch)
    return;
  order->share = to.share;
  order->limit = to.limit;
  order->priority = to.priority;
  order->quota = std::max(order->quota, to.quota);
  if (order != &x.order)
    return;
  for (auto ordinal : x.order.pgpus)
    self->send(
        st.pgpus.at(ordinal),
        pgpu_claim{to.session, claim_of(to.share, to.limit, to.priority)});
  x.resized = to;
  if (!x.peer.empty())
    tell_worker(self, x.peer, to);
}

void on_set_policy(self_ptr self, const control::set_policy& x) {
  auto& st = self->state;
  if (auto i = st.pgpus.find(x.pgpu); i != st.pgpus.end())
    self->send(i->second, pgpu_rules{x.policy, x.quantum_us});
}

// -- what workers say ---------------------------------------------------------

void on_worker_hello(self_ptr self, const std::string& peer,
                     const control::envelope& from,
                     const control::worker_hello& x) {
  auto& st = self->state;
  auto i = st.workers.find(x.session);
  if (i == st.workers.end() || i->second.order.epoch != x.epoch ||
      i->second.stage == stage::stopping) {
    tell_worker(self, peer,
                control::refusal{CUDA_ERROR_NOT_PERMITTED,
                                 "this node runs no such session and epoch",
                                 {}},
                from.request);
    return;
  }
  auto& found = i->second;
  found.peer = peer;
  if (from.request != 0)
    tell_worker(self, peer, control::done{}, from.request);
  if (!x.failure.empty()) {
    report_failure(self, found, x.failure);
    kill_worker(self, found, SIGTERM);
    return;
  }
  if (found.resized)
    tell_worker(self, peer, *found.resized);
  found.where = x.worker;
  found.stage = stage::running;
  found.reported = true;
  tell_manager(self, control::worker_started{
                         x.session, x.epoch, x.worker, found.pid, {}});
}

/// Whether a session's error tells that the device, not the program, failed.
bool is_device_loss(CUresult error) {
  return error == CUDA_ERROR_ECC_UNCORRECTABLE ||
         error == CUDA_ERROR_DEVICE_UNAVAILABLE ||
         error == CUDA_ERROR_NVLINK_UNCORRECTABLE;
}

void on_worker_beat(self_ptr self, const control::worker_beat& x) {
  auto& st = self->state;
  auto i = st.workers.find(x.load.session);
  if (i == st.workers.end() || i->second.order.epoch != x.load.epoch)
    return;
  i->second.load = x.load;
  for (auto ordinal : i->second.order.pgpus) {
    auto& pgpu = st.pgpus.at(ordinal);
    self->send(pgpu, pgpu_use{x.load.session, x.load.memory_bytes});
    if (is_device_loss(x.error))
      self->send(pgpu, pgpu_fail{"lost"});
  }
}

void on_inject(self_ptr self, const control::inject_fault& x) {
  auto& st = self->state;
  auto pgpu = st.pgpus.find(x.pgpu);
  if (pgpu == st.pgpus.end())
    return;
  for (auto& [id, each] : st.workers)
    for (auto ordinal : each.order.pgpus)
      if (ordinal == x.pgpu && !each.peer.empty())
        tell_worker(self, each.peer, x);
  // A hang shows itself to nobody but the program that waits.
  if (x.kind != "hang")
    self->send(pgpu->second,
               pgpu_fail{x.kind == "ecc" ? "quarantined" : "lost"});
}

// -- children -----------------------------------------------------------------

std::map<session_id, worker>::iterator find_tag(supervisor_state& st,
                                                std::uint64_t tag) {
  auto i = st.workers.begin();
  while (i != st.workers.end() && i->second.tag != tag)
    ++i;
  return i;
}

void on_child_started(self_ptr self, const child_started& x) {
  auto& st = self->state;
  if (begin_prepared(self, x))
    return;
  auto i = find_tag(st, x.tag);
  if (i == st.workers.end())
    return;
  i->second.pid = x.pid;
  if (x.failure.empty()) {
    spdlog::info("worker of {} is process {}", describe(i->second), x.pid);
    return;
  }
  report_failure(self, i->second, x.failure);
  auto next = std::move(i->second.next);
  release(self, i->second);
  st.workers.erase(i);
  if (next)
    begin(self, *next);
}

void note_process_end(self_ptr self, const worker& x, const std::string& how) {
  note_ended(self->state, x);
  release(self, x);
  spdlog::info("worker of {} ended: {}", describe(x), how);
  remove_socket(self->state.opts, x.order.session, x.tag);
}

/// Whether it was one that gave way.
bool end_leaving(self_ptr self, const child_exited& gone) {
  auto x = self->state.leaving.extract(gone.tag);
  if (!x)
    return false;
  note_process_end(self, x.mapped(), gone.how);
  if (auto& next = x.mapped().next; next && !self->state.stopping)
    begin_beside(self, *next);
  beat(self);
  return true;
}

void on_child_exited(self_ptr self, const child_exited& gone) {
  auto& st = self->state;
  if (end_prepared(self, gone) || end_leaving(self, gone))
    return finish_stopping(self);
  auto i = find_tag(st, gone.tag);
  if (i == st.workers.end())
    return;
  auto x = std::move(i->second);
  st.workers.erase(i);
  note_process_end(self, x, gone.how);
  if (x.stage == stage::starting)
    report_failure(self, x, "the worker ended at once: " + gone.how);
  else
    tell_manager(self, control::worker_exited{x.order.session, x.order.epoch,
                                              gone.how, gone.clean});
  if (x.next && !st.stopping)
    begin(self, *x.next);
  beat(self);
  finish_stopping(self);
}

void check_prepared(self_ptr self) {
  auto now = self->clock().now();
  auto& all = self->state.prepared;
  for (auto i = all.begin(); i != all.end();) {
    auto& [id, x] = *i++;
    if (now < x.due)
      continue;
    if (!x.ready)
      tell_prepared(self, id, "its worker does not come up in time");
    drop_prepared(self, id);
  }
}

void check_deadlines(self_ptr self) {
  auto now = self->clock().now();
  for (auto& [id, x] : self->state.workers) {
    if (now < x.due || x.tag == 0)
      continue;
    if (x.stage == stage::starting) {
      report_failure(self, x, "the worker did not say hello in time");
      kill_worker(self, x, SIGKILL);
    } else if (x.stage == stage::stopping) {
      spdlog::warn("worker of {} does not end: killing it", describe(x));
      kill_worker(self, x, SIGKILL);
    }
  }
}

// -- the manager --------------------------------------------------------------

void on_registered(self_ptr self) {
  auto& st = self->state;
  st.registered = true;
  spdlog::info("registered with the manager at {}", st.opts.manager_peer);
  if (!std::exchange(st.was_ready, true))
    self->send(st.watcher, supervisor_ready{});
}

void on_refused(self_ptr self, std::uint64_t request,
                const control::refusal& x) {
  auto& st = self->state;
  spdlog::error("the manager refuses: {}", x.reason);
  if (st.was_ready || (request != registration && request != 0))
    return;
  self->send(st.watcher, supervisor_failed{x.reason});
  // Not the normal end: that would leave the linked pGPU actors behind.
  self->quit(caf::exit_reason::user_shutdown);
}

void on_manager(self_ptr self, const control::envelope& in) {
  auto& st = self->state;
  auto& body = in.body;
  if (auto* x = std::get_if<control::welcome>(&body)) {
    // Another manager knows of none.
    while (x->incarnation != st.incarnation && !st.prepared.empty())
      drop_prepared(self, st.prepared.begin()->first);
    st.incarnation = x->incarnation;
    st.beat_every =
        std::chrono::milliseconds{std::clamp(x->beat_every_ms, 10u, 60'000u)};
    register_here(self);
  } else if (auto* ack = std::get_if<control::beat_ack>(&body)) {
    heard_last_words(st, ack->number);
    if (ack->incarnation != st.incarnation && !st.stopping)
      register_here(self);
    finish_stopping(self);
  } else if (std::holds_alternative<control::done>(body)) {
    if (in.request == registration)
      on_registered(self);
    else if (in.request == goodbye)
      st.goodbye_heard = true;
    finish_stopping(self);
  } else if (auto* no = std::get_if<control::refusal>(&body)) {
    on_refused(self, in.request, *no);
  } else if (auto* order = std::get_if<control::start_worker>(&body)) {
    on_start(self, *order);
  } else if (auto* wanted = std::get_if<control::prepare_worker>(&body)) {
    on_prepare(self, *wanted);
  } else if (auto* stop = std::get_if<control::stop_worker>(&body)) {
    on_stop(self, *stop);
  } else if (auto* fault = std::get_if<control::inject_fault>(&body)) {
    on_inject(self, *fault);
  } else if (auto* to = std::get_if<control::resize_session>(&body)) {
    on_resize(self, *to);
  } else if (auto* rules = std::get_if<control::set_policy>(&body)) {
    on_set_policy(self, *rules);
  } else if (auto* other = std::get_if<control::redirect>(&body)) {
    // It is heard of again when it leads.
    spdlog::info("the manager stands by; leader: {}", printable(other->leader));
    st.registered = false;
  } else {
    spdlog::warn("the manager sent a {}, which a node does not take",
                 control::name_of(body));
  }
}

void on_worker(self_ptr self, const std::string& peer,
               const control::envelope& in) {
  if (auto* hello = std::get_if<control::hello>(&in.body)) {
    (void)hello;
    tell_worker(self, peer, control::welcome{}, in.request);
  } else if (auto* x = std::get_if<control::worker_hello>(&in.body)) {
    on_worker_hello(self, peer, in, *x);
  } else if (auto* early = std::get_if<control::worker_prepared>(&in.body)) {
    on_prepared(self, early->session, early->failure);
  } else if (auto* beat = std::get_if<control::worker_beat>(&in.body)) {
    on_worker_beat(self, *beat);
  } else if (auto* event = std::get_if<control::event>(&in.body)) {
    tell_manager(self, *event);
  } else {
    tell_worker(self, peer,
                control::refusal{CUDA_ERROR_NOT_SUPPORTED,
                                 "a node takes no such message of a worker",
                                 {}},
                in.request);
  }
}

void beat(self_ptr self) {
  auto& st = self->state;
  if (!st.registered)
    return;
  control::node_beat out{st.opts.name, ++st.beats, {}, {}};
  for (const auto& [id, x] : st.workers)
    if (x.stage == stage::running && x.load.session)
      out.sessions.push_back(load_of(x));
  out.ended = last_words(st);
  tell_manager(self, std::move(out));
}

// -- the end ------------------------------------------------------------------

void begin_stopping(self_ptr self) {
  auto& st = self->state;
  if (std::exchange(st.stopping, true))
    return;
  st.stop_by = self->clock().now() + goodbye_within;
  // The manager hears it first, and looks for other places at once.
  tell_manager(self, control::shutdown{}, goodbye);
  for (auto i = st.workers.begin(); i != st.workers.end();) {
    i->second.next.reset();
    i = stop_worker(self, i->second, SIGTERM) ? st.workers.erase(i)
                                              : std::next(i);
  }
  while (!st.prepared.empty())
    drop_prepared(self, st.prepared.begin()->first);
  finish_stopping(self);
}

void finish_stopping(self_ptr self) {
  auto& st = self->state;
  if (!st.stopping || !st.workers.empty() || !st.leaving.empty() ||
      !st.dropped.empty())
    return;
  auto told = st.goodbye_heard && st.ended.empty();
  if (st.connected && !told && self->clock().now() < st.stop_by)
    return;
  self->quit(caf::exit_reason::user_shutdown);
}

} // namespace

caf::behavior supervisor(self_ptr self, supervisor_options options,
                         caf::actor manager_link, caf::actor worker_link,
                         std::shared_ptr<spawner> children,
                         caf::actor watcher) {
  auto& st = self->state;
  st.opts = std::move(options);
  st.manager_link = std::move(manager_link);
  st.worker_link = std::move(worker_link);
  st.children = std::move(children);
  st.watcher = std::move(watcher);
  for (const auto& each : st.opts.pgpus)
    st.pgpus[each.ordinal] =
        self->spawn<caf::linked>(pgpu, each, caf::actor_cast<caf::actor>(self));
  self->send(self, caf::tick_atom_v);
  return {
      [self](const incoming_ptr& in) {
        if (in->peer == self->state.opts.manager_peer)
          on_manager(self, in->what);
        else
          on_worker(self, in->peer, in->what);
      },
      [self](const link_event_ptr& event) {
        auto& state = self->state;
        if (event->peer != state.opts.manager_peer)
          return;
        if (event->what == link_event::kind::up)
          state.connected = true;
        else if (event->what != link_event::kind::overrun)
          state.connected = state.registered = false;
        finish_stopping(self);
      },
      [self](const child_started& x) { on_child_started(self, x); },
      [self](const child_exited& x) { on_child_exited(self, x); },
      [self](const pgpu_changed& x) {
        self->state.boards[x.ordinal] = x.board;
        for (auto& each : self->state.opts.pgpus)
          if (each.ordinal == x.ordinal) {
            each.state = x.state;
            each.policy = x.policy;
            each.quantum_us = x.quantum_us;
          }
        if (self->state.connected)
          register_here(self);
      },
      [self](const supervisor_stop&) { begin_stopping(self); },
      [self](const metrics_ask&) -> metrics_ptr {
        return std::make_shared<const metrics_snapshot>(
            metrics_snapshot{node_status_json(self->state), {}, {}});
      },
      [self](caf::tick_atom) {
        beat(self);
        check_deadlines(self);
        check_prepared(self);
        self->delayed_send(self, self->state.beat_every, caf::tick_atom_v);
        finish_stopping(self);
      },
  };
}

} // namespace vgpu
