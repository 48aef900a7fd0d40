#include "actors/manager/cluster/capacity_index.hpp"

#include <cstddef>
#include <utility>

namespace vgpu {

namespace {

/// Returns what a session takes of its place, as the index counts it.
policy::demand counted_demand(const counted_place& x) {
  policy::demand out;
  out.memory = x.memory;
  out.share = x.share;
  return out;
}

std::optional<counted_place> place_to_count(const session_record& x) {
  if (!x.placed())
    return std::nullopt;
  return counted_place{x.where, x.spec.memory, x.spec.share};
}

std::string difference_of(const policy::pgpu_view& a,
                          const policy::pgpu_view& b) {
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

capacity_index::capacity_index(const manager_options& options,
                               cluster_state& state)
    : options_(options), state_(state) {}

policy::placement_index& capacity_index::index() {
  if (index_)
    return *index_;
  index_ = std::make_unique<policy::placement_index>(
      state_.view_for_placement(), options_.placement, options_.own_placement);
  for (auto& [id, x] : state_.sessions)
    x.counted = place_to_count(x);
  return *index_;
}

const policy::cluster_extent& capacity_index::extent() {
  if (!extent_)
    extent_ = policy::extent_of(state_.view());
  return *extent_;
}

void capacity_index::nodes_changed() {
  index_.reset();
  extent_.reset();
}

void capacity_index::recount(session_record& x) {
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

void capacity_index::strike_out(session_record& x) {
  if (index_ && x.counted)
    index_->give(x.counted->where, counted_demand(*x.counted));
  x.counted.reset();
}

std::string capacity_index::difference() const {
  if (!index_)
    return {};
  auto seen = state_.view_for_placement();
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
      if (auto what = difference_of(a.pgpus[p], b.pgpus[p]); !what.empty())
        return a.name + " pGPU " + std::to_string(p) + ":" + what;
  }
  return {};
}

} // namespace vgpu
