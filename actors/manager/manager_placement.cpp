// What decisions about places see of the cluster.
#include "actors/manager/manager_core.hpp"
#include "policies/placement/constraints.hpp"

#include <algorithm>
#include <map>

namespace vgpu {

namespace {

/// What a session takes of its place, as the index counts it.
policy::demand counted_demand(const counted_place& x) {
  policy::demand out;
  out.memory = x.memory;
  out.share = x.share;
  return out;
}

std::string difference(const policy::pgpu_view& a, const policy::pgpu_view& b) {
  auto tell = [](const char* what, auto had, auto has) {
    return had == has ? std::string{}
                      : std::string{" "} + what + " " + std::to_string(had) +
                            ", should be " + std::to_string(has);
  };
  return tell("ordinal", a.ordinal, b.ordinal) +
         tell("reserved", a.reserved, b.reserved) +
         tell("shares", a.shares, b.shares) +
         tell("sessions", a.sessions, b.sessions) +
         tell("healthy", a.healthy, b.healthy);
}

} // namespace

policy::cluster_view manager_core::view() const {
  policy::cluster_view out;
  std::map<std::string, std::size_t> index;
  for (const auto& [name, node] : nodes_) {
    index[name] = out.nodes.size();
    auto& to = out.nodes.emplace_back();
    to.name = name;
    to.host = node.info.host;
    to.alive = node.state == node_record::stage::alive;
    for (const auto& pgpu : node.info.pgpus)
      to.pgpus.push_back({pgpu.ordinal, pgpu.facts.total_memory, 0, 0, 0,
                          pgpu.state == "healthy", pgpu.backend,
                          pgpu.facts.name, 0, pgpu.facts.capability()});
  }
  for (const auto& [id, x] : sessions_) {
    auto i = index.find(x.where.node);
    if (!x.placed() || i == index.end())
      continue;
    for (auto& pgpu : out.nodes[i->second].pgpus)
      if (std::count(x.where.pgpus.begin(), x.where.pgpus.end(),
                     pgpu.ordinal) != 0) {
        pgpu.reserved += x.spec.memory;
        pgpu.held += std::max(x.spec.memory, x.load.memory_bytes);
        pgpu.shares += policy::counted_share(x.spec.share);
        ++pgpu.sessions;
      }
  }
  return out;
}

/// A node whose connection has just ended is most likely dead; if it is not,
/// it will be back in a moment.
policy::cluster_view manager_core::view_for_placement() const {
  auto out = view();
  for (auto& node : out.nodes)
    node.alive = node.alive && !nodes_.at(node.name).seen.closed &&
                 !nodes_.at(node.name).draining;
  return out;
}

// -- the index ----------------------------------------------------------------

/// view_for_placement(), kept up to date: by recount() while sessions come and
/// go, made anew after cluster_changed().
policy::placement_index& manager_core::index() {
  if (index_)
    return *index_;
  index_ = std::make_unique<policy::placement_index>(
      view_for_placement(), options_.placement, options_.own_placement);
  for (auto& [id, x] : sessions_)
    x.counted = place_to_count(x);
  return *index_;
}

/// To be called when a node has come, gone or changed.
void manager_core::cluster_changed() {
  index_.reset();
  extent_.reset();
}

std::optional<counted_place>
manager_core::place_to_count(const session_record& x) {
  return x.placed() ? std::optional{counted_place{x.where, x.spec.memory,
                                                  x.spec.share}}
                    : std::nullopt;
}

/// To be called when a session's stage, place or specification has changed.
void manager_core::recount(session_record& x) {
  if (!index_)
    return;
  auto now = place_to_count(x);
  if (now == x.counted)
    return;
  if (x.counted)
    index_->give(x.counted->where, counted_demand(*x.counted));
  if (now)
    index_->take(now->where, counted_demand(*now));
  x.counted = std::move(now);
}

/// To be called when a session is no more.
void manager_core::strike_out(session_record& x) {
  if (index_ && x.counted)
    index_->give(x.counted->where, counted_demand(*x.counted));
  x.counted.reset();
}

const policy::cluster_extent& manager_core::extent() {
  if (!extent_)
    extent_ = policy::extent_of(view());
  return *extent_;
}

std::string manager_core::index_difference() const {
  if (!index_)
    return {};
  auto seen = view_for_placement();
  const auto& kept = index_->cluster();
  if (kept.nodes.size() != seen.nodes.size())
    return std::to_string(kept.nodes.size()) + " nodes";
  for (std::size_t n = 0; n < seen.nodes.size(); ++n) {
    const auto& a = kept.nodes[n];
    const auto& b = seen.nodes[n];
    if (a.name != b.name || a.host != b.host || a.alive != b.alive ||
        a.pgpus.size() != b.pgpus.size())
      return "node " + a.name + ", should be " + b.name;
    for (std::size_t p = 0; p < a.pgpus.size(); ++p)
      if (auto what = difference(a.pgpus[p], b.pgpus[p]); !what.empty())
        return a.name + " pGPU " + std::to_string(p) + ":" + what;
  }
  return {};
}

} // namespace vgpu
