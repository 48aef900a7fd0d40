// Snapshots: a session's state, taken while its worker goes on, so that what
// lies before it in the log is never replayed and can be given back.
//
// They lie where the program holds them (schema/log/snapshot_files.hpp) and are
// named in the control area once they are complete: a client that dies leaves
// the newest to the next, and with the program they are gone. The program can
// write all of it: what is found there is checked as if a stranger had made it.
#include "actors/client/guest_codec.hpp"
#include "actors/client/session_client_forwarding.hpp"
#include "actors/state/state_file.hpp"

#include <spdlog/spdlog.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

using namespace std::chrono_literals;

/// Snapshots come too often for an event each.
constexpr auto told_every = 60s;
/// How soon one that failed is tried again while the journal fills, at first
/// and at last.
constexpr std::chrono::milliseconds soonest_retry = 200ms;
constexpr std::chrono::milliseconds latest_retry = 10s;
/// For one part of the time that snapshots take the devices, they have so many
/// parts for the program. Its host has as long as one takes in all.
constexpr int work_per_pause = 9;
/// Workers that try to make a state again before something else is tried.
constexpr unsigned most_tries = 2;

unique_fd duplicate(int fd) {
  return unique_fd{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
}

} // namespace

// -- when
// -------------------------------------------------------------------------

bool session_client::is_protected() const {
  return area_->header().protection_level.load() !=
         static_cast<std::uint32_t>(protection::none);
}

bool session_client::may_snapshot() const {
  return area_ && lease_ && !lost_ && !movement_ && !held_ && !aside_ &&
         !suspected_ && places_.in_memory() && !snapshot_useless_ &&
         replay_told_ && (worker_ || (forwarding_ && forwarding_->attached)) &&
         is_protected();
}

bool session_client::wants_snapshots() const {
  return fills_ || specification_.protection == control::protection::snapshot;
}

/// How long to sleep at most; negative: there is nothing to wake up for.
std::chrono::milliseconds session_client::until_snapshot() const {
  if (!may_snapshot() || !wants_snapshots())
    return -1ms;
  auto rest = next_snapshot_ - clock::now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(rest), 1ms);
}

void session_client::look_at_snapshots() {
  if (!may_snapshot() || !wants_snapshots() || clock::now() < next_snapshot_)
    return;
  auto& header = area_->header();
  // Nothing was called since.
  if (header.tail.load() != header.covered.load())
    return begin_snapshot();
  next_snapshot_ =
      clock::now() + std::chrono::milliseconds{specification_.snapshot_ms};
}

/// Bytes of calls that no snapshot covers. The program's words: any number.
std::uint64_t session_client::uncovered() const {
  auto& header = area_->header();
  auto tail = header.tail.load();
  return tail - std::min(tail, header.covered.load());
}

/// Whatever was told, and to whom: this client may be new.
void session_client::look_at_filling() {
  fills_ = is_protected() && uncovered() > snapshot_after_;
}

/// How long the journal may grow until the next.
void session_client::expect_state(std::uint64_t bytes) {
  snapshot_after_ = snapshot_after(area_->log_capacity(), bytes);
  area_->header().snapshot_after = snapshot_after_;
}

void session_client::take_notice(std::span<const std::uint64_t> words) {
  auto what = guest::decode_notice(words);
  if (!what)
    return spdlog::warn("session {}: {}", lease_ ? lease_->session.value : 0,
                        what.why().what);
  if (*what == guest::notice::shares)
    note_sharing();
  else
    note_filling();
}

/// The program has lowered its protection by itself, before it had what it
/// shares: not even for a moment is there a journal that says too much.
void session_client::note_sharing() {
  (void)area_->lower_protection();
  if (std::exchange(shares_, true))
    return;
  fills_ = false;
  tell(make_event("protection-lowered",
                  program_.name +
                      " shares GPU memory or events with another process, and "
                      "what two do to one memory cannot be done again in "
                      "order; from now on its session is not protected"));
}

/// The program says so; while it waits for room, again and again.
void session_client::note_filling() {
  look_at_filling();
  if (!fills_ || movement_)
    return;
  spdlog::info("session {}: its journal has {} bytes",
               lease_ ? lease_->session.value : 0, uncovered());
  auto now = clock::now();
  auto presses = uncovered() > area_->log_capacity() / 2;
  next_snapshot_ =
      presses ? now : std::min(next_snapshot_, std::max(now, rested_));
  if (!places_.in_memory())
    give_up_snapshot("its program has no room for one", true);
  else if (snapshot_useless_)
    give_up_snapshot("no worker could take up the last", true);
}

// -- taking one
// -------------------------------------------------------------------

void session_client::begin_movement(bool snapshot) {
  movement_.emplace();
  movement_->began = movement_->since = movement_->stands = clock::now();
  movement_->order =
      static_cast<std::uint64_t>(movement_->began.time_since_epoch().count());
  movement_->snapshot = snapshot;
}

void session_client::begin_snapshot() {
  begin_movement(true);
  auto newest = area_->header().newest.load();
  auto taken = newest == 0 ? 1 : newest - 1;
  movement_->places = {state_places::other(taken, false),
                       state_places::other(taken, true)};
  data::checkpoint order{.compress = false,
                         .go_on = true,
                         .order = movement_->order,
                         .in_memory = options_.state_memory};
  if (!worker_)
    return send(order);
  std::vector<int> descriptors{places_.at(movement_->places[0])};
  if (places_.on_disk())
    descriptors.push_back(places_.at(movement_->places[1]));
  (void)send_packet(
      worker_.get(),
      data::encode({lease_->session, lease_->epoch, std::move(order)}),
      descriptors);
}

/// Of a worker elsewhere, part by part, while it works on. The newest has most
/// of it already, and so has the one before, whose place it takes.
status session_client::receive_snapshot(data::checkpointed& x) {
  x.on_disk = x.bytes > options_.state_memory && places_.on_disk();
  auto place = places_.at(movement_->places[x.on_disk ? 1 : 0]);
  auto newest = places_.at(area_->header().newest.load() - 1);
  auto inflow =
      snapshot_inflow::begin(x.bytes, duplicate(place), duplicate(newest));
  if (!inflow)
    return inflow.why();
  movement_->arriving = std::move(*inflow);
  return {};
}

/// All of it is here, and all answers before it are with the program.
void session_client::keep_snapshot() {
  auto& header = area_->header();
  auto what = *movement_->stopped;
  auto place = movement_->places[what.on_disk ? 1 : 0];
  auto state = state_reader::open(places_.at(place));
  if (!state)
    return give_up_snapshot(state.why().what, false);
  if (state->index().position != what.position ||
      what.position > header.tail.load())
    return give_up_snapshot("its state is of another call", false);
  // From here on it is the one.
  header.newest.store(static_cast<std::uint32_t>(place + 1));
  area_->publish_covered(what.position);
  give_back_places(place, what.on_disk);
  std::chrono::nanoseconds pause{what.pause_ns};
  auto now = clock::now();
  auto at_rest = std::clamp<std::chrono::nanoseconds>(pause, 0s, 60s);
  rested_ = now + std::max(work_per_pause * at_rest, now - movement_->began);
  next_snapshot_ = std::max(
      rested_,
      movement_->began + std::chrono::milliseconds{specification_.snapshot_ms});
  expect_state(what.bytes);
  look_at_filling();
  snapshot_trouble_.clear();
  retry_after_ = soonest_retry;
  report_snapshot(what.bytes, pause);
  if (!worker_)
    tell_worker(data::go_on{});
  end_snapshot();
}

/// What the newest replaces, unless the next will be written there soon, and
/// what did not change need not be. One that travels is always: to copy most of
/// it once more takes the client longer than all the rest.
void session_client::give_back_places(std::size_t newest, bool on_disk) {
  auto kept =
      movement_->copied_ahead &&
      (!worker_ || specification_.protection == control::protection::snapshot);
  for (std::size_t i = 0; i < state_places::count; ++i)
    if (i != newest && places_.at(i) >= 0 &&
        !(kept && i == state_places::other(newest, on_disk)))
      (void)::ftruncate(places_.at(i), 0);
}

void session_client::note_travel(std::uint64_t bytes) {
  auto& came = movement_->arriving->bytes();
  snapshots_.travelled += came.travelled;
  spdlog::debug("session {}: a snapshot of {} bytes: {} travelled, {} were "
                "copied, {} stayed; {} ms",
                lease_->session.value, bytes, came.travelled, came.copied,
                came.stayed, (clock::now() - movement_->began) / 1ms);
}

/// The first, and from time to time what came since.
void session_client::report_snapshot(std::uint64_t bytes,
                                     std::chrono::nanoseconds pause) {
  ++snapshots_.count;
  if (movement_->arriving)
    note_travel(bytes);
  snapshots_.longest = std::max(snapshots_.longest, pause);
  auto now = clock::now();
  if (snapshots_told_ != clock::time_point{} &&
      now - snapshots_told_ < told_every)
    return;
  snapshots_told_ = now;
  auto event = make_event(
      "session-snapshot",
      program_.name + ": " + std::to_string(snapshots_.count) +
          (snapshots_.count == 1 ? " snapshot was" : " snapshots were") +
          " taken, the last of " + std::to_string(bytes) + " bytes" +
          (worker_ ? ""
                   : ", of which " + std::to_string(snapshots_.travelled) +
                         " travelled in all") +
          "; the time is that of the longest pause");
  event.bytes = bytes;
  event.calls = snapshots_.count;
  event.milliseconds =
      std::chrono::duration<double, std::milli>{snapshots_.longest}.count();
  tell(std::move(event));
  snapshots_ = {};
}

/// The session runs on, under the snapshot before, if there is one.
void session_client::give_up_snapshot(const std::string& why, bool lasting) {
  auto now = clock::now();
  auto copies =
      movement_ && movement_->phase == data::checkpointing::phase::copying;
  auto took = movement_ ? now - movement_->began : 0s;
  auto stood = movement_ && !copies ? now - movement_->stands : 0s;
  if (movement_)
    tell_worker(data::go_on{});
  if (std::exchange(snapshot_trouble_, why) != why) {
    spdlog::warn("session {}: no snapshot: {}",
                 lease_ ? lease_->session.value : 0, why);
    if (lasting)
      tell(make_event("snapshot-failed", program_.name +
                                             ": no snapshot is taken: " + why +
                                             "; its journal grows on"));
  }
  next_snapshot_ =
      now + (fills_
                 ? retry_after_
                 : std::max<clock::duration>(
                       {std::chrono::milliseconds{specification_.snapshot_ms},
                        took, work_per_pause * stood}));
  retry_after_ = std::min(2 * retry_after_, latest_retry);
  // Before the program stands still for ever.
  if (lasting && fills_ && uncovered() > area_->log_capacity() / 4 * 3 &&
      area_->lower_protection()) {
    fills_ = false;
    tell(make_event("protection-lowered",
                    "the call log of " + program_.name +
                        " is full, and no snapshot can be taken: " + why +
                        "; from now on its session is not protected"));
  }
  end_snapshot();
}

/// An order that came meanwhile has its turn.
void session_client::end_snapshot() {
  movement_.reset();
  if (auto order = std::exchange(postponed_, std::nullopt))
    pause(*order);
}

// -- using one
// --------------------------------------------------------------------

/// What a worker begins with that follows another: the state that is held, the
/// newest snapshot, or the whole journal. A state that could not be made again
/// (a driver may put variables elsewhere when fewer modules were loaded before
/// them) is given up as soon as something else would do.
void session_client::choose_beginning() {
  calls_before_ = 0;
  auto whole_journal = is_protected() && area_->header().trimmed.load() == 0;
  if (held_ && held_->tries >= most_tries && is_protected()) {
    auto refused = std::exchange(held_, std::nullopt);
    if ((refused->snapshot || !recover_snapshot()) && !whole_journal) {
      held_ = std::move(refused); // nothing else is left
    } else {
      snapshot_useless_ = refused->snapshot;
      tell(make_event(
          "state-refused",
          program_.name + " could not be taken up from its " +
              (refused->snapshot ? "snapshot" : "state") + ": " +
              last_suspicion_ + "; it is recovered from its " +
              (held_ ? "snapshot and the calls since" : "whole journal")));
    }
  } else if (!held_ && !(snapshot_useless_ && whole_journal)) {
    recover_snapshot();
  }
  if (held_)
    ++held_->tries;
  reader_->rewind(held_ ? held_->position : 0);
}

/// Holds the newest snapshot, if there is one that fits the log. A session
/// whose protection was lowered has no journal behind it.
bool session_client::recover_snapshot() {
  auto& header = area_->header();
  auto newest = header.newest.load();
  if (newest == 0 || !is_protected())
    return false;
  auto place = places_.at(newest - 1);
  auto state = state_reader::open(place);
  auto refuse = [&](const std::string& why) {
    spdlog::error("session {}: its snapshot cannot be used: {}",
                  lease_->session.value, why);
    return false;
  };
  if (!state)
    return refuse(state.why().what);
  auto position = state->index().position;
  if (position < header.trimmed.load() || position > header.tail.load())
    return refuse("it is of a call that the log does not hold");
  calls_before_ = state->index().calls;
  held_.emplace();
  held_->file = duplicate(place);
  held_->bytes = state->bytes();
  held_->position = position;
  held_->began = clock::now();
  held_->snapshot = true;
  return true;
}

} // namespace vgpu
