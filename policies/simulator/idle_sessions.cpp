#include "policies/simulator/idle_sessions.hpp"

namespace vgpu::simulator {

void idle_sessions::note(std::uint32_t i) {
  auto after = scene_.asked_by(i).idle_after_ms;
  const auto& g = scene_.sessions[i];
  if (after == control::keep_when_idle ||
      g.idle_from + after / 1e3 > scene_.now)
    return;
  nodes_[g.node].idle.emplace(g.idle_from, i);
  changed_.insert(g.node);
}

void idle_sessions::has_left(std::uint32_t i) {
  auto node = scene_.sessions[i].node;
  --nodes_[node].suspending;
  changed_.insert(node);
}

/// Adds the candidates of a node to the view. Of those, only the longest idle
/// can be chosen, so it adds no more than may leave at once.
void idle_sessions::look_at(std::uint32_t node,
                            std::vector<policy::idle_session>& view,
                            policy::suspensions& under_way) const {
  const auto& [idle, suspending] = nodes_[node];
  auto left = scene_.options.reclaim.at_once;
  for (auto i = idle.begin(); i != idle.end() && left != 0; ++i, --left) {
    const auto& name = scene_.sessions[i->second].where.node;
    under_way[name] = suspending;
    view.push_back({session_id{i->second + std::uint64_t{1}},
                    name,
                    point(i->first),
                    policy::duration{0},
                    {}});
  }
}

std::vector<std::uint32_t> idle_sessions::choose() {
  std::vector<policy::idle_session> view;
  policy::suspensions under_way;
  for (auto node : changed_)
    look_at(node, view, under_way);
  changed_.clear();
  auto chosen = policy::choose_idle(view, std::move(under_way),
                                    point(scene_.now), scene_.options.reclaim);
  std::vector<std::uint32_t> out;
  for (auto id : chosen.now) {
    out.push_back(static_cast<std::uint32_t>(id.value - 1));
    forget(out.back());
    ++nodes_[scene_.sessions[out.back()].node].suspending;
  }
  return out;
}

} // namespace vgpu::simulator
