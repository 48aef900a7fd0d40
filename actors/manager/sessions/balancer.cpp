#include "actors/manager/sessions/balancer.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace vgpu {

namespace {

/// Sums up the sessions' use of a pGPU's time.
struct crowd {
  double used = 0;
  std::size_t users = 0;
};

using pgpu_key = std::pair<std::string, std::uint32_t>;

/// Returns the load of a session that was not measured. It is high, because
/// programs ask for GPUs to use them.
double guessed_load(const session_record& x) {
  return std::min(1.0, x.spec.limit);
}

} // namespace

balancer::balancer(const manager_options& options, manager_clock& clock,
                   cluster_state& state, const accounts& books, movement& moves)
    : options_(options), clock_(clock), state_(state), accounts_(books),
      moves_(moves) {}

/// Measures in which part of the time since the last sample the devices worked
/// for the session.
void balancer::measure(session_record& x) {
  auto& m = x.measured;
  if (x.stage != session_stage::running || x.moving) {
    // Its work during a movement says nothing.
    m.since.reset();
    m.used.reset();
    return;
  }
  auto total = accounts_.of(x.id).device_ns;
  if (m.since && clock_.now() > *m.since) {
    std::chrono::duration<double, std::nano> span = clock_.now() - *m.since;
    auto grown = static_cast<double>(total - std::min(total, m.device_ns));
    m.used = std::min(1.0, grown / span.count() / std::max(1u, x.spec.gpus));
  }
  m.since = clock_.now();
  m.device_ns = total;
}

void balancer::measure_loads() {
  std::map<pgpu_key, crowd> crowds;
  for (auto& [id, x] : state_.sessions) {
    measure(x);
    if (!x.measured.used)
      continue;
    for (auto ordinal : x.where.pgpus) {
      auto& there = crowds[{x.where.node, ordinal}];
      there.used += *x.measured.used;
      there.users += *x.measured.used >= policy::least_use ? 1 : 0;
    }
  }
  for (auto& [id, x] : state_.sessions) {
    if (!x.measured.used)
      continue;
    auto load = 0.0;
    for (auto ordinal : x.where.pgpus) {
      const auto& there = crowds[{x.where.node, ordinal}];
      load = std::max(load, policy::load_of(*x.measured.used, there.used,
                                            there.users, x.spec.limit));
    }
    // Half of it is the former value, so that a pause changes little.
    auto& known = x.measured.load;
    known = known ? (*known + load) / 2 : load;
  }
}

policy::balance_view balancer::view() const {
  policy::balance_view out{state_.view_for_placement(), {}};
  for (auto& node : out.cluster.nodes)
    node.draining =
        state_.nodes.at(node.name).draining && state_.alive(node.name);
  // A constraint that names a vGPU binds that vGPU as well.
  std::set<vgpu_id> kept_beside;
  std::multimap<vgpu_id, policy::place> kept_apart;
  auto somebody_waits = false;
  for (const auto& [id, x] : state_.sessions) {
    somebody_waits = somebody_waits || x.stage == session_stage::waiting;
    if (x.spec.beside)
      kept_beside.insert(x.spec.beside);
    if (x.spec.apart && x.placed())
      kept_apart.emplace(x.spec.apart, x.where);
  }
  for (const auto& [id, x] : state_.sessions) {
    if (!x.placed())
      continue;
    auto& to = out.vgpus.emplace_back();
    to.id = x.vgpu;
    to.where = x.where;
    to.constraints = state_.demand_of(x);
    auto [begin, end] = kept_apart.equal_range(x.vgpu);
    for (auto i = begin; i != end; ++i)
      to.constraints.apart.push_back(i->second);
    to.bytes = x.load.memory_bytes;
    to.load = x.measured.load.value_or(guessed_load(x));
    // A session that has memory must not take memory that another waits for.
    to.movable = moves_.may_move(x) && x.measured.load && x.load.session &&
                 !kept_beside.contains(x.vgpu) &&
                 to.constraints.affinity.empty() && // it may be about to share
                 (x.spec.memory == 0 || !somebody_waits);
    to.moved = x.moved_at;
    to.rests_until = x.rests_until;
  }
  return out;
}

/// Orders one move at a time, and only where the same pGPU was too hot in
/// several samples in a row.
void balancer::on_tick() {
  if (!options_.balance_every || state_.sessions.empty())
    return next_.reset();
  if (next_ && clock_.now() < *next_)
    return;
  if (!std::exchange(next_, clock_.now() + *options_.balance_every))
    return;
  measure_loads();
  if (std::any_of(
          state_.sessions.begin(), state_.sessions.end(), [](const auto& x) {
            return x.second.moving &&
                   x.second.moving->what == session_movement::kind::migrate;
          }))
    return;
  auto move = policy::choose_move(view(), clock_.now(), options_.balance);
  if (!hot_.stays(move, options_.balance_samples))
    return;
  for (auto& [id, x] : state_.sessions)
    if (x.vgpu == move->vgpu && moves_.may_move(x))
      return moves_.order(x, {.what = session_movement::kind::migrate,
                              .target = std::move(move->to),
                              .why = std::move(move->why)});
}

} // namespace vgpu
