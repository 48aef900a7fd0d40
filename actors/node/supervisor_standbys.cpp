#include "actors/node/supervisor_standbys.hpp"

#include "actors/link/log.hpp"
#include "actors/node/worker_command.hpp"

#include <algorithm>
#include <utility>

namespace vgpu::supervising {

namespace {

using stage = supervisor_state::stage;

/// Returns the memory of a pGPU that neither programs nor standbys use. A
/// session with several devices counts as if each had all of its memory.
std::uint64_t free_memory(const supervisor_state& st, std::uint32_t pgpu) {
  auto has = [pgpu](const std::vector<std::uint32_t>& all) {
    return std::ranges::count(all, pgpu) != 0;
  };
  std::uint64_t left = 0;
  for (const auto& x : st.opts.pgpus)
    if (x.ordinal == pgpu)
      left = x.facts.total_memory;
  auto take = [&left](std::uint64_t bytes) { left -= std::min(left, bytes); };
  for (const auto& [id, x] : st.workers)
    if (has(x.order.pgpus))
      take(x.load.memory_bytes);
  for (const auto& [tag, x] : st.leaving)
    if (has(x.order.pgpus))
      take(x.load.memory_bytes);
  take(st.prepared->standbys_on(pgpu).size() * st.opts.standby_memory);
  return left;
}

/// Returns why the session can have no standby; empty: it can.
std::string refuse_standby(const supervisor_state& st,
                           const supervisor_state::worker& x) {
  const auto& order = x.order;
  if (st.opts.standby_memory == 0)
    return "this node keeps no standbys";
  if (st.stopping || x.stage != stage::running || x.next)
    return "it is leaving";
  if (st.prepared->has(order.session))
    return "it has a prepared worker";
  // Half of the processes are left for workers that serve.
  auto running =
      st.workers.size() + st.leaving.size() + st.prepared->processes();
  if (running >= st.opts.most_workers * st.pgpus.size() / 2)
    return "this node has " + std::to_string(running) +
           " processes of workers, which is too many for standbys";
  for (auto pgpu : order.pgpus)
    if (free_memory(st, pgpu) < 2 * st.opts.standby_memory)
      return "pGPU " + std::to_string(pgpu) + " has too little free memory";
  return {};
}

void start_standby(self_ptr self, const control::start_worker& order) {
  prepared_worker x;
  x.order = preparation_of(order);
  x.purpose = preparation::standby;
  prepare(self, std::move(x));
}

void end_standbys_on(self_ptr self, std::uint32_t pgpu) {
  auto& st = self->state;
  for (auto session : st.prepared->standbys_on(pgpu)) {
    spdlog::info("pGPU {}: the memory of session {}'s standby is needed", pgpu,
                 session.value);
    st.prepared->drop_standby(session, "its memory was needed");
  }
}

/// Ends the standbys on the worker's devices, and answers when they have ended.
void make_way(self_ptr self, const supervisor_state::worker& x,
              std::uint64_t request) {
  auto& st = self->state;
  for (auto pgpu : x.order.pgpus)
    end_standbys_on(self, pgpu);
  if (st.prepared->nobody_ends())
    return tell_worker(
        self, x.peer,
        control::refusal{CUDA_SUCCESS, "there are no standbys", {}}, request);
  st.wait_for_standbys.push_back({x.peer, request});
}

} // namespace

void tell_standbys_ended(self_ptr self) {
  auto& st = self->state;
  if (!st.prepared->nobody_ends())
    return;
  for (auto& [peer, request] : std::exchange(st.wait_for_standbys, {}))
    tell_worker(self, peer, control::done{}, request);
}

void on_standby(self_ptr self, const std::string& peer,
                const control::standby& x, std::uint64_t request) {
  auto& st = self->state;
  auto i = st.workers.find(x.session);
  auto known = i != st.workers.end() && i->second.order.epoch == x.epoch &&
               i->second.peer == peer;
  if (x.news == control::standby_news::wanted) {
    if (known)
      st.prepared->replace_standby(x.session);
    auto why = known ? refuse_standby(st, i->second)
                     : std::string{"it is no worker of this node"};
    if (why.empty())
      return start_standby(self, i->second.order);
    spdlog::debug("session {} gets no standby: {}", x.session.value, why);
    return tell_worker(self, peer, control::worker_prepared{x.session, why});
  }
  if (!known)
    return;
  if (x.news == control::standby_news::in_the_way)
    return make_way(self, i->second, request);
  if (x.news == control::standby_news::useless)
    return st.prepared->drop_standby(x.session, "it is useless");
  st.prepared->note_objects(x.session,
                            x.news == control::standby_news::making
                                ? prepared_worker::objects::newer
                                : prepared_worker::objects::of_snapshot);
}

void tell_of_standby(self_ptr self, control::worker_prepared x) {
  auto& st = self->state;
  auto i = st.workers.find(x.session);
  if (i != st.workers.end() && !i->second.peer.empty())
    tell_worker(self, i->second.peer, std::move(x));
}

void free_standbys_memory(self_ptr self) {
  auto& st = self->state;
  if (st.prepared->standbys() == 0)
    return;
  for (const auto& pgpu : st.opts.pgpus)
    if (free_memory(st, pgpu.ordinal) < st.opts.standby_memory)
      end_standbys_on(self, pgpu.ordinal);
}

void worker_ended(self_ptr self, session_id session, bool leaves) {
  auto& st = self->state;
  if (leaves)
    st.prepared->drop_standby(session, "its session has left");
  else
    st.prepared->keep_standby(session,
                              self->clock().now() + st.opts.hello_within);
}

} // namespace vgpu::supervising
