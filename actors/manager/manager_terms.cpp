// One leader after another: what is carried over, and what may not be.
#include "actors/manager/manager_core.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

/// More than a session can be placed in one term.
constexpr std::uint64_t epochs_of_a_term = 1'000'000'000;

} // namespace

/// Of this manager's own store counts what the leader before it did not make
/// old; of what that one left, all.
void manager_core::begin_term() {
  const auto& right = options_.right;
  last_session_ = std::max(last_session_, right.after);
  last_vgpu_ = std::max(last_vgpu_, right.after);
  if (!store_) {
    drained_ = right.kept.drained;
    return;
  }
  auto before = store_->state().sessions;
  store_->begin_term(right.term, right.kept.drained);
  drained_ = store_->state().drained;
  // Whoever is still there is told of again, and its account goes on.
  for (const auto& [id, x] : before)
    if (!store_->state().sessions.contains(id))
      usage_.close(id);
}

/// Above all that former leaders gave, known or not.
epoch manager_core::epoch_after(vgpu::epoch x) const {
  return {std::max(x.value, options_.right.term * epochs_of_a_term) + 1};
}

/// Gives a new session numbers that no other has, nor one of another leader.
status manager_core::take_numbers(session_record& to) {
  if (options_.right.term == 0) {
    to.id = {++last_session_};
    to.vgpu = {++last_vgpu_};
    return {};
  }
  auto next = std::max(last_session_, last_vgpu_) + 1;
  while (sessions_.contains({next}) || unclaimed_.contains({next}))
    ++next;
  if (next > options_.right.kept.numbers)
    return fault{CUDA_ERROR_SYSTEM_NOT_READY,
                 "this manager has no more numbers for vGPUs, as etcd does not "
                 "answer; try again when it does"};
  last_session_ = last_vgpu_ = next;
  to.id = {next};
  to.vgpu = {next};
  return {};
}

/// A peer names a session that this manager does not know. Which numbers are
/// its own, it knows better where it was elected.
void manager_core::note_numbers(session_id session, vgpu_id vgpu) {
  if (options_.right.term != 0)
    return;
  last_session_ = std::max(last_session_, session.value);
  last_vgpu_ = std::max(last_vgpu_, vgpu.value);
}

std::optional<etcd::record> manager_core::to_keep() const {
  const auto& right = options_.right;
  if (right.term == 0)
    return {};
  // Half of them are left while more are asked for.
  auto few = std::max(last_session_, last_vgpu_) + numbers_at_a_time / 2 >=
             right.kept.numbers;
  if (!few && drained_ == right.kept.drained)
    return {};
  auto out = right.kept;
  out.drained = drained_;
  if (few)
    out.numbers += numbers_at_a_time;
  return out;
}

// -- programs that come before the nodes --------------------------------------

/// The nodes that the leader before had, or this manager before it was
/// restarted, are on their way: what cannot be had yet is not refused.
bool manager_core::nodes_may_come() const {
  return (options_.right.term != 0 || came_back_) &&
         now_ < started_ + options_.node_grace;
}

void manager_core::retry_held() {
  auto held = std::exchange(held_, {});
  // As they would wait, had they come to wait.
  std::ranges::stable_sort(held, std::ranges::greater{}, [](const auto& x) {
    const auto& asked = std::get<control::acquire>(x.second.body);
    return std::pair{asked.specification.priority, asked.waited_ms};
  });
  for (auto& [peer, what] : held)
    handle(peer, what, std::get<control::acquire>(what.body));
}

} // namespace vgpu
