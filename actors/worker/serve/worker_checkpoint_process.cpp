// Checkpoints of the process itself, whose memory is released from its GPUs.
#include "actors/worker/serve/worker_checkpoint.hpp"

#include "actors/link/log.hpp"

#include <utility>

namespace vgpu {

using namespace std::chrono_literals;

/// Begins a checkpoint of the process, because the session has no state.
/// Returns false where the client does not want that, or it is not possible.
bool worker_checkpoint::begin_process(const std::string& why) {
  if (!wanted_.may_checkpoint_process || of_ == subject::process ||
      !release_.is_possible() || !exec_.may_checkpoint_process())
    return false;
  spdlog::info("session {}: {}; its process is checkpointed instead",
               identity_.session.value, why);
  of_ = subject::process;
  dry_run_.reset();
  exec_.abandon_copy();
  settled_.reset();
  stop_calls();
  return true;
}

/// Releases the memory. The devices are idle, and no call is under way.
void worker_checkpoint::release() {
  tell(phase_told::resting);
  standby_.give_up(clock::now());
  progress_.note();
  client_.settle_answers(false);
  settled_.reset();
  stays_because_.clear();
  // Nobody should wait for a turn that this session has.
  exec_.gates().rest();
  if (auto ok = release_.release(); !ok)
    return refuse(ok.why().what);
  phase_ = checkpoint_phase::releasing;
}

void worker_checkpoint::look_moved() {
  auto outcome = release_.outcome();
  if (!outcome)
    return;
  if (phase_ != checkpoint_phase::returning)
    return *outcome ? released() : not_released(outcome->why());
  if (*outcome)
    return is_back();
  spdlog::warn("session {}: its process does not come back: {}",
               identity_.session.value, outcome->why().what);
  phase_ = checkpoint_phase::checkpointed;
  if (release_.may_try_again())
    return restore_process();
  to_.fail("its process cannot be brought back to its GPU: " +
           outcome->why().what);
}

void worker_checkpoint::released() {
  auto recalled = phase_ == checkpoint_phase::recalled;
  phase_ = checkpoint_phase::checkpointed;
  auto bytes = exec_.used_bytes();
  exec_.note_off_devices(true);
  if (recalled)
    return restore_process();
  auto took = release_.took();
  spdlog::info("session {}: its process is checkpointed, with {} bytes, after "
               "{} ms",
               identity_.session.value, bytes, took / 1ms);
  client_.tell(
      data::checkpointed{.position = progress_.position(),
                         .bytes = bytes,
                         .answers = client_.forwarded(),
                         .pause_ns = static_cast<std::uint64_t>(took.count()),
                         .order = wanted_.order,
                         .process_checkpointed = true});
  to_.ended({});
}

void worker_checkpoint::not_released(const fault& why) {
  stays_because_ = why.what;
  if (why.kind == fault_kind::unsupported)
    return is_back();
  // The memory's place is unknown, so it is brought back.
  phase_ = checkpoint_phase::checkpointed;
  restore_process();
}

void worker_checkpoint::restore_process() {
  if (phase_ == checkpoint_phase::releasing)
    phase_ = checkpoint_phase::recalled;
  if (phase_ != checkpoint_phase::checkpointed)
    return; // it is coming back, or will
  phase_ = checkpoint_phase::returning;
  if (auto ok = release_.restore(); !ok)
    to_.fail("no helper can bring its process back to its GPU: " +
             ok.why().what);
}

void worker_checkpoint::is_back() {
  exec_.note_off_devices(false);
  phase_ = checkpoint_phase::running;
  go_on();
  spdlog::info("session {}: its process is back after {} ms",
               identity_.session.value, release_.took() / 1ms);
  if (stays_because_.empty())
    return client_.tell(data::back{});
  auto why = "its process cannot be checkpointed: " +
             std::exchange(stays_because_, {});
  to_.ended(fault{fault_kind::unsupported, why});
  client_.tell(data::not_checkpointed{why});
}

} // namespace vgpu
