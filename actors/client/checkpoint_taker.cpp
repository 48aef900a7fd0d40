#include "actors/client/checkpoint_taker.hpp"

#include <utility>

namespace vgpu {

std::uint64_t checkpoint_taker::begin_progress() {
  auto now = clock::now();
  progress_ = progress{
      .began = now,
      .order = static_cast<std::uint64_t>(now.time_since_epoch().count()),
      .since = now,
      .copies = now,
      .stands = now};
  return progress_->order;
}

void checkpoint_taker::note(const data::checkpointing& x) {
  using phase = data::checkpointing::phase;
  if (!progress_ || x.order != progress_->order)
    return;
  auto now = clock::now();
  progress_->phase = x.now;
  progress_->since = now;
  switch (x.now) {
  case phase::copying:
    // It is told anew after a dry run, which uses other processors.
    progress_->copies = now;
    progress_->copied_ahead = true;
    break;
  case phase::stopping:
    progress_->stands = now;
    break;
  case phase::resting:
    break;
  case phase::completing:
    progress_->stood = now - progress_->stands;
    if (!progress_->stopped)
      note_fixed();
    break;
  }
}

bool checkpoint_taker::runs() const noexcept {
  using phase = data::checkpointing::phase;
  return progress_->phase == phase::copying ||
         progress_->phase == phase::completing;
}

void checkpoint_taker::take(const data::checkpointed& x,
                            std::vector<unique_fd> files) {
  if (progress_->stopped || x.order != progress_->order)
    return;
  if (progress_->phase != data::checkpointing::phase::completing)
    note_fixed();
  progress_->stopped = x;
  progress_->arrived = clock::now();
  if (!x.process_checkpointed) {
    auto ok = begin_transfer(*progress_->stopped, std::move(files));
    if (!ok)
      return give_up(ok.why().what, true);
  }
  advance();
}

void checkpoint_taker::take(const data::state_part& x,
                            const worker_payload& part) {
  if (!progress_)
    return;
  progress_->arrived = clock::now();
  auto ok = take_part(x.from, part);
  // The program must not wait for ever for a snapshot. A worker on this host
  // that finds no room gives up likewise.
  if (!ok)
    give_up(ok.why().what, true);
}

/// Returns how long the worker may take for its phase.
std::chrono::milliseconds checkpoint_taker::phase_within() const {
  using phase = data::checkpointing::phase;
  constexpr std::chrono::minutes written_within{10};
  return runs() || progress_->phase == phase::resting ? written_within
                                                      : rest_within();
}

void checkpoint_taker::advance() {
  if (!progress_)
    return;
  if (parts_.lease.suspected() || !parts_.worker.ready())
    return give_up("its worker does not answer any more", false);
  auto unhurried = runs_during_transfer() && progress_->stopped;
  auto limit = phase_within();
  if (!unhurried && clock::now() - progress_->since > limit)
    return give_up("it does not come to rest within " +
                       std::to_string(limit.count()) +
                       " ms; a kernel or a host function of the program takes "
                       "longer, or there is too much memory",
                   true);
  if (!progress_->stopped)
    return;
  auto complete = transfer();
  if (!complete)
    return give_up(complete.why().what, true);
  if (*complete || works())
    progress_->arrived = clock::now();
  else if (clock::now() - progress_->arrived > parts_.part_within)
    return give_up("no part of its state came for " +
                       std::to_string(parts_.part_within.count()) + " ms",
                   false);
  const auto& stopped = *progress_->stopped;
  if (*complete && !parts_.opened.waits_before(stopped.position) &&
      parts_.worker.has_answers(stopped.answers))
    finish();
}

} // namespace vgpu
