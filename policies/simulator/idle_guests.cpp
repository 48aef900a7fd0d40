#include "policies/simulator/idle_guests.hpp"

#include "policies/reclaim.hpp"

namespace vgpu::simulator {

void idle_guests::note(std::uint32_t i) {
  auto after = scene_.asked_by(i).idle_after_ms;
  auto from = scene_.guests[i].idle_from;
  if (after != control::keep_when_idle && from + after / 1e3 <= scene_.now)
    idle_.emplace(from, i);
}

/// The manager is told of all that may give way; of those that are ripe, only
/// the longest idle can be chosen.
std::vector<std::uint32_t> idle_guests::choose() {
  const auto& options = scene_.options.reclaim;
  std::vector<policy::idle_session> view;
  for (auto i = idle_.begin();
       i != idle_.end() && view.size() < options.at_once; ++i)
    view.push_back({session_id{i->second + std::uint64_t{1}},
                    point(i->first),
                    policy::duration{0},
                    {}});
  auto chosen =
      policy::choose_idle(view, suspending_, point(scene_.now), options);
  std::vector<std::uint32_t> out;
  for (auto id : chosen.now) {
    out.push_back(static_cast<std::uint32_t>(id.value - 1));
    forget(out.back());
    ++suspending_;
  }
  return out;
}

} // namespace vgpu::simulator
