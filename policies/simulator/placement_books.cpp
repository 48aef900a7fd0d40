#include "policies/simulator/placement_books.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace vgpu::simulator {

namespace {

policy::cluster_view make_cluster(const cluster_shape& shape) {
  policy::cluster_view out;
  out.nodes.reserve(shape.nodes);
  for (std::size_t n = 0; n < shape.nodes; ++n) {
    auto& node = out.nodes.emplace_back();
    node.name = node.host = node_name(n);
    for (std::uint32_t p = 0; p < shape.gpus_per_node; ++p)
      node.pgpus.push_back(
          {p, shape.memory, 0, 0, 0, true, "nvidia", "gpu", 0, 90});
  }
  return out;
}

policy::cluster_extent make_extent(const cluster_shape& x) {
  return {x.memory, x.nodes == 0 ? 0 : std::size_t{x.gpus_per_node}};
}

} // namespace

places::places(scene& all)
    : scene_(all), extent_(make_extent(all.options.cluster)),
      index_(make_cluster(all.options.cluster), all.options.placement,
             all.options.own),
      on_node_(all.options.cluster.nodes) {
  for (std::size_t n = 0; n < on_node_.size(); ++n)
    nodes_[node_name(n)] = static_cast<std::uint32_t>(n);
}

bool places::admits(std::uint32_t i) const {
  return static_cast<bool>(
      policy::admit_within(extent_, scene_.constraints_of(i)));
}

bool places::could_be_local(std::uint32_t i) const {
  return nodes_.contains(scene_.trace[i].host);
}

policy::demand places::demand_of(std::uint32_t i) const {
  auto out = scene_.constraints_of(i);
  const auto& sessions = scene_.sessions;
  const auto& x = scene_.asked_by(i);
  if (sessions[i].had_place)
    out.previous = sessions[i].where;
  auto place_of = [&](vgpu_id other, std::vector<policy::place>& to) {
    if (other && other.value <= sessions.size() &&
        sessions[other.value - 1].stage == simulated_stage::placed)
      to.push_back(sessions[other.value - 1].where);
  };
  place_of(x.beside, out.beside);
  place_of(x.apart, out.apart);
  if (auto group = groups_.find(x.group); group != groups_.end())
    for (auto other : group->second)
      if (scene_.trace[other].host == scene_.trace[i].host)
        out.affinity.push_back(sessions[other].where);
  return out;
}

std::optional<policy::place> places::choose(std::uint32_t i) {
  auto what = demand_of(i);
  auto began = std::chrono::steady_clock::now();
  auto found = index_.choose(what);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  ++scene_.out.decisions;
  scene_.out.decision_seconds += took.count();
  if (auto* where = std::get_if<policy::place>(&found))
    return std::move(*where);
  return std::nullopt;
}

bool places::may_move(std::uint32_t i, const policy::place& where) const {
  auto what = demand_of(i);
  what.previous = {};
  what.node = where.node;
  what.pgpu = static_cast<std::int32_t>(where.pgpus.front());
  const auto& node = index_.cluster().nodes[nodes_.at(where.node)];
  return std::ranges::any_of(node.pgpus, [&](const auto& pgpu) {
    return policy::may_take(node, pgpu, what);
  });
}

void places::enter(std::uint32_t i, policy::place where) {
  auto& g = scene_.sessions[i];
  g.node = nodes_.at(where.node);
  g.where = std::move(where);
  g.stage = simulated_stage::placed;
  count(i, 1);
  auto& most = scene_.out.most_on_a_node;
  most = std::max(most, on_node_[g.node]);
}

void places::strike(std::uint32_t i) {
  count(i, -1);
}

void places::count(std::uint32_t i, int times) {
  const auto& g = scene_.sessions[i];
  auto group = scene_.asked_by(i).group;
  auto what = scene_.constraints_of(i);
  times > 0 ? index_.take(g.where, what) : index_.give(g.where, what);
  promised_ += times * scene_.bytes_of(i);
  on_node_[g.node] += static_cast<std::size_t>(times);
  if (group != 0 && times > 0)
    groups_[group].insert(i);
  else if (group != 0)
    groups_[group].erase(i);
}

void places::keep_for(std::uint32_t i) {
  if (scene_.asked_by(i).memory == 0)
    return;
  if (auto where = index_.place_to_keep(scene_.constraints_of(i)))
    index_.keep(*where);
}

} // namespace vgpu::simulator
