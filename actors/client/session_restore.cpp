#include "actors/client/session_restore.hpp"

#include "actors/lend/descriptor_parcel.hpp"
#include "actors/link/log.hpp"
#include "actors/state/state_file.hpp"
#include "actors/state/state_transfer.hpp"

#include <unistd.h>

#include <cstdint>
#include <utility>

namespace vgpu {

namespace {

/// Limits the workers that try to restore a state before something else is
/// tried.
constexpr unsigned most_tries = 2;
/// Gives the number of bytes that are freed at once.
constexpr std::int64_t freed_at_once = std::int64_t{32} << 20;

} // namespace

bool session_restore::offer_lent(bool here) {
  if (!held_ || !held_->lent)
    return true;
  std::string why =
      "its next worker is on another host than the memory that it lent";
  if (here) {
    // The worker empties the parcel that it gets.
    auto copy = copy_parcel(held_->lent, held_->lent_count);
    if (copy) {
      held_->offered = std::move(*copy);
      return true;
    }
    why = "the memory that its state lends is lost: " + copy.why().what;
  }
  held_.reset();
  reports_.tell_event("state-refused",
                      reports_.program() + ": " + why +
                          "; it is recovered from its snapshot or journal");
  return false;
}

void session_restore::choose() {
  calls_before_ = 0;
  auto whole_journal = opened_.may_replay_all();
  auto most = held_ && held_->lent_directly ? 1 : most_tries;
  if (held_ && held_->tries >= most && opened_.is_protected())
    give_up_tried(whole_journal);
  else if (!held_ && !(snapshot_useless_ && whole_journal))
    hold_snapshot();
  if (held_)
    ++held_->tries;
  opened_.reader.rewind(held_ ? held_->position : 0);
}

/// Gives up a state that may be impossible to restore: a driver may put
/// variables elsewhere when fewer modules were loaded before them. It is given
/// up as soon as there is an alternative.
void session_restore::give_up_tried(bool whole_journal) {
  auto refused = std::exchange(held_, std::nullopt);
  if ((refused->snapshot || !hold_snapshot()) && !whole_journal) {
    held_ = std::move(refused); // there is no alternative
    return;
  }
  snapshot_useless_ = refused->snapshot;
  reports_.tell_event(
      "state-refused",
      reports_.program() + " could not be restored from its " +
          (refused->snapshot ? "snapshot" : "state") + ": " +
          lease_.last_suspicion() + "; it is recovered from its " +
          (held_ ? "snapshot and the calls since" : "whole journal"));
}

/// Holds the newest snapshot, if there is one that fits the log. A session
/// whose protection was lowered has no journal after it.
bool session_restore::hold_snapshot() {
  auto& header = opened_.header();
  auto newest = header.newest.load();
  if (newest == 0 || !opened_.is_protected())
    return false;
  auto place = opened_.places.at(newest - 1);
  auto state = state_reader::open(place);
  auto refuse = [&](const std::string& why) {
    spdlog::error("session {}: its snapshot cannot be used: {}",
                  lease_.session().value, why);
    return false;
  };
  if (!state)
    return refuse(state.why().what);
  auto position = state->index().position;
  if (position < header.trimmed.load() || position > header.tail.load())
    return refuse("it is of a call that the log does not hold");
  calls_before_ = state->index().calls;
  held_.emplace();
  held_->file = duplicate_of(place);
  held_->bytes = state->bytes();
  held_->position = position;
  held_->began = std::chrono::steady_clock::now();
  held_->snapshot = true;
  return true;
}

/// Reports how much of a state travelled while the session was served.
void session_restore::report_copied() const {
  auto event = reports_.make_event(
      "session-copied",
      reports_.program() + ": " + std::to_string(held_->came_ahead) +
          " bytes of its state travelled while its calls went on, and " +
          std::to_string(held_->travelled) + " bytes while it stood still");
  event.bytes = held_->came_ahead + held_->travelled;
  reports_.tell(std::move(event));
}

void session_restore::free_some() {
  if (!dropped_)
    return;
  auto left = ::lseek(dropped_.get(), 0, SEEK_END) - freed_at_once;
  if (left <= 0 || ::ftruncate(dropped_.get(), left) != 0)
    dropped_ = unique_fd{};
}

void session_restore::restored(bool follows, bool adopted) {
  auto tell = [&](std::uint64_t bytes, double milliseconds) {
    reports_.tell(control::restored{lease_.session(), lease_.epoch(), bytes,
                                    milliseconds});
  };
  if (!held_) {
    // The session may have been suspended under another client, and the command
    // that resumed it waits for this.
    if (follows)
      tell(0, 0);
    return;
  }
  std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - held_->began;
  // This comes first, because the other report ends the command.
  if (held_->came_ahead != 0)
    report_copied();
  // After a failure only the replay is reported to the manager.
  tell(held_->snapshot ? 0 : held_->bytes, took.count());
  // A snapshot is still needed, and an adopted file is the worker's memory.
  if (!held_->snapshot && !adopted)
    dropped_ = std::move(held_->file);
  held_.reset();
}

std::shared_ptr<const std::vector<std::byte>>
session_restore::part(const data::state_wanted& wanted) {
  if (!held_)
    return nullptr;
  auto out = part_of_state(held_->file.get(), held_->bytes, wanted);
  held_->travelled += out ? out->size() : 0;
  return out;
}

} // namespace vgpu
