#include "actors/manager/cluster/term_numbers.hpp"

#include <algorithm>

namespace vgpu {

namespace {

/// Exceeds the number of placements of a session in one term.
constexpr std::uint64_t epochs_of_a_term = 1'000'000'000;

} // namespace

term_numbers::term_numbers(const manager_options& options, manager_clock& clock,
                           cluster_state& state)
    : options_(options), clock_(clock), state_(state), right_(options.right) {}

void term_numbers::restore(std::uint64_t last_session,
                           std::uint64_t last_vgpu) {
  last_session_ = last_session;
  last_vgpu_ = last_vgpu;
}

/// Keeps the sessions of this manager's own store unless another manager led
/// the term before, and everything of that leader's record.
std::vector<session_id> term_numbers::begin() {
  last_session_ = std::max(last_session_, right_.after);
  last_vgpu_ = std::max(last_vgpu_, right_.after);
  if (state_.kept == nullptr) {
    state_.drained = right_.kept.drained;
    state_.tenants = right_.kept.tenants;
    return {};
  }
  auto before = state_.kept->state().sessions;
  state_.kept->begin_term(right_.term, right_.kept.drained,
                          right_.kept.tenants);
  const auto& now = state_.kept->state();
  state_.drained = now.drained;
  state_.tenants = now.tenants;
  std::vector<session_id> forgotten;
  for (const auto& [id, x] : before)
    if (!now.sessions.contains(id))
      forgotten.push_back(id);
  return forgotten;
}

epoch term_numbers::epoch_after(vgpu::epoch x) const {
  return {std::max(x.value, right_.term * epochs_of_a_term) + 1};
}

status term_numbers::take_numbers(session_record& to) {
  if (right_.term == 0) {
    to.id = {++last_session_};
    to.vgpu = {++last_vgpu_};
    return {};
  }
  auto next = std::max(last_session_, last_vgpu_) + 1;
  while (state_.sessions.contains({next}) || state_.unclaimed.contains({next}))
    ++next;
  if (next > right_.kept.numbers)
    return fault{fault_kind::unreachable,
                 "this manager has no more numbers for vGPUs, as etcd does not "
                 "answer; try again when it does"};
  last_session_ = last_vgpu_ = next;
  to.id = {next};
  to.vgpu = {next};
  return {};
}

/// Notes the numbers, except in an elected leader, which knows its own numbers.
void term_numbers::note_numbers(session_id session, vgpu_id vgpu) {
  // Numbers after a noted one must be plausible for a long time.
  constexpr auto most = implausible / 2;
  if (right_.term != 0 || session.value >= most || vgpu.value >= most)
    return;
  last_session_ = std::max(last_session_, session.value);
  last_vgpu_ = std::max(last_vgpu_, vgpu.value);
}

bool term_numbers::nodes_may_come() const {
  return (right_.term != 0 || has_earlier_life_) &&
         clock_.now() < clock_.started() + options_.node_grace;
}

std::optional<etcd::record> term_numbers::to_keep() const {
  if (right_.term == 0)
    return {};
  // Ask for more while half of them are left.
  auto few = std::max(last_session_, last_vgpu_) + numbers_at_a_time / 2 >=
             right_.kept.numbers;
  if (!few && state_.drained == right_.kept.drained &&
      state_.tenants == right_.kept.tenants)
    return {};
  auto out = right_.kept;
  out.drained = state_.drained;
  out.tenants = state_.tenants;
  if (few)
    out.numbers += numbers_at_a_time;
  return out;
}

} // namespace vgpu
