#include "actors/node/supervisor_workers.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"
#include "actors/node/node_usage.hpp"
#include "actors/node/supervisor_standbys.hpp"
#include "actors/node/worker_command.hpp"

#include <algorithm>
#include <csignal>

namespace vgpu::supervising {

namespace {

using stage = supervisor_state::stage;
using worker = supervisor_state::worker;

std::string describe(const worker& x) {
  return "session " + std::to_string(x.order.session.value) + " epoch " +
         std::to_string(x.order.epoch.value);
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

/// Reports once that the worker could not be started.
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

/// Starts the worker's process. Returns its account.
std::shared_ptr<usage_page> start_process(self_ptr self, std::uint64_t tag,
                                          const control::prepare_worker& x) {
  auto& st = self->state;
  // A sandboxed worker cannot remove a file that a former node left.
  remove_socket(st.opts, x.session, tag);
  auto command = command_of(st.opts, st.boards, x, tag);
  auto account = add_account(command, x.session);
  st.children->start(tag, std::move(command), child_listener{self});
  return account;
}

void spawn_process(self_ptr self, worker& x) {
  auto& st = self->state;
  x.stage = stage::starting;
  x.due = self->clock().now() + st.opts.hello_within;
  if (auto ready = st.prepared->take(x.order)) {
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

/// Returns why the node runs no further worker, or nothing where it may. A
/// prepared process is that of the order for its session. Standbys keep nobody
/// out.
std::string refuse_further(const supervisor_state& st) {
  auto most = st.opts.most_workers * st.pgpus.size();
  auto running = st.workers.size() + st.leaving.size() +
                 st.prepared->processes() - st.prepared->standbys();
  return running < most
             ? ""
             : "this node has " + std::to_string(running) +
                   " processes of workers, of which it runs at most " +
                   std::to_string(most);
}

void begin(self_ptr self, const control::start_worker& order) {
  auto& st = self->state;
  worker fresh;
  fresh.order = order;
  fresh.grants_missing = order.pgpus.size();
  auto further =
      st.prepared->has(order.session) ? std::string{} : refuse_further(st);
  auto& x = st.workers[order.session] = std::move(fresh);
  std::string refusal = order.pgpus.empty() ? "the order names no pGPU" : "";
  for (auto ordinal : order.pgpus)
    if (!st.pgpus.contains(ordinal))
      refusal = "this node has no pGPU " + std::to_string(ordinal);
  if (refusal.empty())
    refusal = std::move(further);
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

/// Ends a worker that must not serve any longer. Returns true when it is gone
/// already.
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

/// Returns whether a worker whose process is not dead has pGPUs that the next
/// one needs.
bool has_some_of(const worker& x, const control::start_worker& next) {
  auto& has = x.order.pgpus;
  return std::any_of(has.begin(), has.end(), [&](auto pgpu) {
    return std::count(next.pgpus.begin(), next.pgpus.end(), pgpu) != 0;
  });
}

/// Returns the order that waits for the end of a released worker; null: none.
std::optional<control::start_worker>* order_after(supervisor_state& st,
                                                  session_id id) {
  for (auto& [tag, x] : st.leaving)
    if (x.order.session == id && x.next)
      return &x.next;
  return nullptr;
}

/// Starts the worker at once, unless a process that is ending still has some of
/// its pGPUs.
void start_when_free(self_ptr self, const control::start_worker& order) {
  for (auto& [tag, x] : self->state.leaving)
    if (x.order.session == order.session && has_some_of(x, order)) {
      x.next = order;
      return;
    }
  begin(self, order);
}

/// Handles a worker that executes nothing any more, and whose end nothing waits
/// for.
void leave(self_ptr self, std::map<session_id, worker>::iterator i) {
  auto& st = self->state;
  kill_worker(self, i->second, SIGKILL);
  auto gone = st.workers.extract(i);
  auto tag = gone.mapped().tag;
  st.leaving.emplace(tag, std::move(gone.mapped()));
}

} // namespace

void tell_manager(self_ptr self, control::body what, std::uint64_t request) {
  auto& st = self->state;
  if (st.connected)
    self->send(st.manager_link,
               std::make_shared<const outgoing>(outgoing{
                   {}, {"node/" + st.opts.name, request, std::move(what)}}));
}

void tell_worker(self_ptr self, const std::string& peer, control::body what,
                 std::uint64_t request) {
  auto& st = self->state;
  self->send(st.worker_link,
             std::make_shared<const outgoing>(outgoing{
                 peer, {"node/" + st.opts.name, request, std::move(what)}}));
}

// -- orders of the manager ----------------------------------------------------

void take(self_ptr self, const control::envelope&,
          const control::start_worker& order) {
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
    return start_when_free(self, order);
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
  if (order.former_released && !x.next && has_process) {
    leave(self, i);
    start_when_free(self, order);
  } else if (stop_worker(self, x, SIGKILL)) {
    begin(self, order);
  } else {
    x.next = order;
  }
}

void take(self_ptr self, const control::envelope&,
          const control::prepare_worker& order) {
  auto& st = self->state;
  st.prepared->drop_standby(order.session, "its session moves");
  st.prepared->drop(order.session);
  if (st.stopping || order.pgpus.empty())
    return;
  for (auto ordinal : order.pgpus)
    if (!st.pgpus.contains(ordinal))
      return tell_manager(
          self,
          control::worker_prepared{order.session, "this node has no pGPU " +
                                                      std::to_string(ordinal)});
  if (auto why = refuse_further(st); !why.empty())
    return tell_manager(self, control::worker_prepared{order.session, why});
  prepared_worker x;
  x.order = order;
  prepare(self, std::move(x));
}

void prepare(self_ptr self, prepared_worker x) {
  auto& st = self->state;
  x.tag = ++st.last_tag;
  x.account = start_process(self, x.tag, x.order);
  x.due = self->clock().now() + st.opts.hello_within;
  st.prepared->add(std::move(x));
}

void take(self_ptr self, const control::envelope&,
          const control::stop_worker& x) {
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

namespace {

/// Claims for a worker what its order says now.
void claim_anew(self_ptr self, const worker& x) {
  auto& st = self->state;
  const auto& order = x.order;
  if (st.opts.sandboxed && x.tag != 0)
    st.children->resize(x.tag, order.quota * order.pgpus.size());
  for (auto ordinal : order.pgpus)
    self->send(st.pgpus.at(ordinal),
               pgpu_claim{order.session,
                          claim_of(order.share, order.limit, order.priority)});
}

/// Adds a resize to those that the worker gets with its hello.
void keep(worker& x, const control::resize_session& to) {
  auto former = x.resized.value_or(to);
  x.resized = to.share != 0 ? to : former;
  const auto& keys = to.client_key.empty() ? former : to;
  x.resized->client_key = keys.client_key;
  x.resized->former_key = keys.former_key;
}

} // namespace

void take(self_ptr self, const control::envelope&,
          const control::resize_session& to) {
  auto& st = self->state;
  auto i = st.workers.find(to.session);
  if (i == st.workers.end())
    return;
  // An order that has not begun takes the new values.
  auto& x = i->second;
  auto* order = x.next && x.next->epoch == to.epoch ? &*x.next : &x.order;
  if (order->epoch != to.epoch)
    return;
  if (!to.client_key.empty())
    order->client_key = to.client_key;
  if (to.share != 0) {
    order->share = to.share;
    order->limit = to.limit;
    order->priority = to.priority;
    order->quota = std::max(order->quota, to.quota);
  }
  if (order != &x.order)
    return;
  if (to.share != 0)
    claim_anew(self, x);
  keep(x, to);
  if (!x.peer.empty())
    tell_worker(self, x.peer, to);
}

void stop_workers(self_ptr self) {
  auto& st = self->state;
  for (auto i = st.workers.begin(); i != st.workers.end();) {
    i->second.next.reset();
    i = stop_worker(self, i->second, SIGTERM) ? st.workers.erase(i)
                                              : std::next(i);
  }
  st.prepared->drop_all();
}

// -- messages of workers ------------------------------------------------------

namespace {

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

/// Returns whether a session's error says that the device failed, not the
/// program.
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
  free_standbys_memory(self);
  for (auto ordinal : i->second.order.pgpus) {
    auto& pgpu = st.pgpus.at(ordinal);
    self->send(pgpu, pgpu_use{x.load.session, x.load.memory_bytes});
    if (is_device_loss(x.error))
      self->send(pgpu, pgpu_fail{control::pgpu_health::lost});
  }
}

// One overload of take() for each message of a worker.

void take(self_ptr self, const std::string& peer, const control::envelope& from,
          const control::hello&) {
  tell_worker(self, peer, control::welcome{}, from.request);
}

void take(self_ptr self, const std::string& peer, const control::envelope& from,
          const control::worker_hello& x) {
  on_worker_hello(self, peer, from, x);
}

void take(self_ptr self, const std::string&, const control::envelope&,
          const control::worker_prepared& x) {
  auto& st = self->state;
  st.prepared->on_ready(x, self->clock().now() + st.opts.orders_within);
}

void take(self_ptr self, const std::string&, const control::envelope&,
          const control::worker_beat& x) {
  on_worker_beat(self, x);
}

void take(self_ptr self, const std::string& peer, const control::envelope& from,
          const control::standby& x) {
  on_standby(self, peer, x, from.request);
}

void take(self_ptr self, const std::string&, const control::envelope&,
          const control::event& x) {
  tell_manager(self, x);
}

/// Refuses every other message.
template <class T>
void take(self_ptr self, const std::string& peer, const control::envelope& from,
          const T&) {
  tell_worker(self, peer,
              control::refusal{CUDA_ERROR_NOT_SUPPORTED,
                               "a node takes no such message of a worker",
                               {}},
              from.request);
}

} // namespace

void on_worker(self_ptr self, const std::string& peer,
               const control::envelope& in) {
  std::visit([&](const auto& x) { take(self, peer, in, x); }, in.body);
}

// -- children -----------------------------------------------------------------

namespace {

std::map<session_id, worker>::iterator find_tag(supervisor_state& st,
                                                std::uint64_t tag) {
  auto i = st.workers.begin();
  while (i != st.workers.end() && i->second.tag != tag)
    ++i;
  return i;
}

void note_process_end(self_ptr self, const worker& x, const std::string& how) {
  note_ended(self->state, x);
  release(self, x);
  spdlog::info("worker of {} ended: {}", describe(x), how);
  remove_socket(self->state.opts, x.order.session, x.tag);
}

/// Returns whether it was a released worker.
bool end_leaving(self_ptr self, const child_exited& gone) {
  auto x = self->state.leaving.extract(gone.tag);
  if (!x)
    return false;
  note_process_end(self, x.mapped(), gone.how);
  if (auto& next = x.mapped().next; next && !self->state.stopping)
    start_when_free(self, *next);
  return true;
}

} // namespace

void on_child_started(self_ptr self, const child_started& x) {
  auto& st = self->state;
  if (st.prepared->on_started(x))
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

bool on_child_exited(self_ptr self, const child_exited& gone) {
  auto& st = self->state;
  if (auto session = st.prepared->on_exited(gone)) {
    remove_socket(st.opts, *session, gone.tag);
    tell_standbys_ended(self);
    return false;
  }
  if (end_leaving(self, gone))
    return true;
  auto i = find_tag(st, gone.tag);
  if (i == st.workers.end())
    return false;
  auto x = std::move(i->second);
  st.workers.erase(i);
  note_process_end(self, x, gone.how);
  worker_ended(self, x.order.session, gone.clean && !x.next);
  if (x.stage == stage::starting)
    report_failure(self, x, "the worker ended at once: " + gone.how);
  else
    tell_manager(self, control::worker_exited{x.order.session, x.order.epoch,
                                              gone.how, gone.clean});
  if (x.next && !st.stopping)
    begin(self, *x.next);
  return true;
}

void check_deadlines(self_ptr self) {
  auto now = self->clock().now();
  self->state.prepared->on_time(now);
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

bool has_workers(const supervisor_state& st) {
  return !st.workers.empty() || !st.leaving.empty() ||
         !st.prepared->nobody_ends();
}

} // namespace vgpu::supervising
