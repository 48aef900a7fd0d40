#include "actors/client/session_snapshots.hpp"

#include "actors/link/log.hpp"
#include "actors/state/state_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

using namespace std::chrono_literals;

/// Limits the events about snapshots, which come too often for one each.
constexpr auto reported_every = 60s;
/// Say how soon a failed snapshot is tried again while the journal fills, at
/// first and at last.
constexpr std::chrono::milliseconds soonest_retry = 200ms;
constexpr std::chrono::milliseconds latest_retry = 10s;
/// Gives the program at least so many times the time for which snapshots stop
/// the devices. Snapshots also leave its host alone for half as long as one
/// takes in total.
constexpr int work_per_pause = 9;
/// Says how long after the former snapshot one shows that the next will come
/// soon.
constexpr auto next_soon = 30s;
/// Limits the time in which a session comes to rest while its program waits for
/// that.
constexpr std::chrono::minutes waited_for_within{10};

} // namespace

// -- when ---------------------------------------------------------------------

std::chrono::milliseconds session_snapshots::period() const {
  return std::chrono::milliseconds{parts().opened.specification.snapshot_ms};
}

/// Returns whether the program asked for snapshots even when its journal is
/// short.
bool session_snapshots::by_period() const {
  return parts().opened.specification.protection ==
         control::protection::snapshot;
}

/// Returns why no snapshot can be taken; empty: one can.
std::string session_snapshots::impossible() const {
  if (!parts().opened.places.in_memory())
    return "its program has no room for one";
  if (restore_.snapshot_useless())
    return "no worker could restore the last one";
  return {};
}

void session_snapshots::begin_epoch(bool repeats) {
  promise_.begin_worker(repeats);
  wanted_ = 0; // the next worker asks by itself
  if (journal_limit_ == 0)
    expect_state(0);
  measure_journal();
  next_ = clock::now() + period();
}

session_snapshots::clock::time_point session_snapshots::due() const {
  if (!impossible().empty() || !parts().opened.is_protected())
    return clock::time_point::max();
  if (wants_cover())
    return wanted_at_;
  auto promised = std::max(promise_.due(), rested_);
  return fills_ || by_period() ? std::min(next_, promised) : promised;
}

void session_snapshots::note(const data::progress& x) {
  promise_.note(x);
  if (auto why = impossible(); !why.empty())
    promise_.note_trouble(why);
  promise_.tell();
}

void session_snapshots::begin_if_due() {
  if (clock::now() < due())
    return;
  auto& header = parts().opened.header();
  if (header.tail.load() != header.covered.load())
    begin();
  else { // no call was made since
    next_ = clock::now() + period();
    promise_.note_covered();
  }
}

/// Returns the bytes of calls that no snapshot covers. The program writes these
/// words, so any value may occur.
std::uint64_t session_snapshots::uncovered() const {
  auto& header = parts().opened.header();
  auto tail = header.tail.load();
  return tail - std::min(tail, header.covered.load());
}

/// Reads the log, because a new client may have missed the notice.
void session_snapshots::measure_journal() {
  fills_ = parts().opened.is_protected() && uncovered() > journal_limit_;
}

/// Sets how far the journal may grow before the next snapshot, after one of so
/// many bytes.
void session_snapshots::expect_state(std::uint64_t bytes) {
  journal_limit_ = snapshot_after(parts().opened.area->log_capacity(), bytes);
  parts().opened.header().snapshot_after = journal_limit_;
}

/// Handles the program's notice that it shares. The program has lowered its
/// protection before, so no journal promises too much at any moment.
void session_snapshots::note_sharing() {
  (void)parts().opened.area->lower_protection();
  tell_covered();
  if (std::exchange(sharing_reported_, true))
    return;
  fills_ = false;
  const auto& reports = parts().reports;
  reports.tell_event(
      "protection-lowered",
      reports.program() +
          " shares GPU memory or events with another process, and a replay "
          "cannot repeat the work of both in order; from now on its session "
          "is not protected");
}

void session_snapshots::note_filling() {
  measure_journal();
  if (!fills_ || running())
    return;
  spdlog::info("session {}: its journal has {} bytes",
               parts().lease.session().value, uncovered());
  auto now = clock::now();
  auto presses = uncovered() > parts().opened.area->log_capacity() / 2;
  next_ = presses ? now : std::min(next_, std::max(now, rested_));
  if (auto why = impossible(); !why.empty())
    give_up(why, true);
}

// -- taking one ---------------------------------------------------------------

void session_snapshots::begin() {
  const auto& opened = parts().opened;
  auto newest = opened.header().newest.load();
  auto taken = newest == 0 ? 1 : newest - 1;
  is_cover_ = wants_cover();
  places_ = {state_places::other(taken, false),
             state_places::other(taken, true)};
  data::checkpoint order{.compress = false,
                         .go_on = true,
                         .order = begin_progress(),
                         .in_memory = options_.state_memory,
                         .stands_by = !is_cover_};
  if (!parts().worker.is_mapped())
    return parts().worker.send(std::move(order));
  std::vector<int> descriptors{opened.places.at(places_[0])};
  if (opened.places.on_disk())
    descriptors.push_back(opened.places.at(places_[1]));
  parts().worker.send_with(std::move(order), descriptors);
}

/// Bounds the time in which a mapped worker writes the snapshot while the
/// program waits. One that waits for a result waits for the work before it
/// anyway.
std::chrono::milliseconds session_snapshots::rest_within() const {
  if (wants_cover())
    return waited_for_within;
  constexpr std::chrono::milliseconds mapped_within = 5s;
  return parts().worker.is_mapped()
             ? std::min(mapped_within, options_.pause_within)
             : options_.pause_within;
}

/// Begins to receive the snapshot. That of a forwarded worker comes part by
/// part while the worker continues. Most of it is in the newest snapshot
/// already, and in the older one that it overwrites.
status session_snapshots::begin_transfer(data::checkpointed& x,
                                         std::vector<unique_fd>) {
  if (parts().worker.is_mapped())
    return {};
  const auto& opened = parts().opened;
  x.on_disk = x.bytes > options_.state_memory && opened.places.on_disk();
  auto place = opened.places.at(places_[x.on_disk ? 1 : 0]);
  auto newest = opened.places.at(opened.header().newest.load() - 1);
  auto inflow = snapshot_inflow::begin(x.bytes, duplicate_of(place),
                                       duplicate_of(newest));
  if (!inflow)
    return inflow.why();
  arriving_.emplace(std::move(*inflow), parts().ring);
  return {};
}

status session_snapshots::take_part(std::uint64_t from,
                                    const worker_payload& part) {
  if (arriving_)
    arriving_->take(from, part.bytes, part.owner);
  return {};
}

result<bool> session_snapshots::transfer() {
  if (!arriving_)
    return true;
  for (auto& range : arriving_->wanted())
    parts().worker.send(range);
  return arriving_->complete();
}

void session_snapshots::finish() {
  const auto& opened = parts().opened;
  auto& header = opened.header();
  auto what = *current().stopped;
  auto place = places_[what.on_disk ? 1 : 0];
  auto state = state_reader::open(opened.places.at(place));
  if (!state)
    return give_up(state.why().what, false);
  if (state->index().position != what.position ||
      what.position > header.tail.load())
    return give_up("its state is of another call", false);
  // From here on this one is the newest.
  header.newest.store(static_cast<std::uint32_t>(place + 1));
  opened.area->publish_covered(what.position);
  give_back_places(place, what.on_disk);
  taken_at_ = clock::now();
  auto cost = effort();
  schedule_next(cost.stood);
  if (is_cover_)
    promise_.note_cover(what.bytes);
  else
    promise_.note_snapshot(cost);
  promise_.tell();
  expect_state(what.bytes);
  measure_journal();
  trouble_.clear();
  retry_after_ = soonest_retry;
  report(cost);
  if (!parts().worker.is_mapped())
    parts().worker.send(data::go_on{});
  tell_covered();
  abandon();
  parts().listener.on_checkpoint_over();
}

/// Returns what the snapshot has cost so far.
policy::snapshot_effort session_snapshots::effort() const {
  const auto& x = *current().stopped;
  return {.bytes = x.bytes,
          .stood = told_time(x.pause_ns),
          .delayed =
              told_time(x.delayed_ns) + (arriving_ ? arriving_->waited() : 0ns),
          .took = clock::now() - current().copies};
}

void session_snapshots::schedule_next(std::chrono::nanoseconds pause) {
  auto now = clock::now();
  auto at_rest = std::clamp<std::chrono::nanoseconds>(pause, 0s, 60s);
  auto took = now - current().copies;
  rested_ = now + std::max(work_per_pause * at_rest, took / 2);
  next_ = std::max(rested_, current().began + period());
}

/// Frees the memory of the places that the newest snapshot replaces. The place
/// of the next one is kept where it will be written soon, because unchanged
/// contents need not be written again. That holds for every received snapshot,
/// since copying most of it again takes the client longer than everything else.
void session_snapshots::give_back_places(std::size_t newest,
                                         bool on_disk) const {
  const auto& places = parts().opened.places;
  auto soon = taken_at_ && clock::now() - *taken_at_ < next_soon;
  auto kept =
      current().copied_ahead && (!parts().worker.is_mapped() || by_period() ||
                                 parts().opened.covers_results() || soon);
  for (std::size_t i = 0; i < state_places::count; ++i) {
    if (i == newest || places.at(i) < 0 ||
        (kept && i == state_places::other(newest, on_disk)))
      continue;
    // A failure costs only memory.
    [[maybe_unused]] auto result = ::ftruncate(places.at(i), 0);
  }
}

void session_snapshots::note_travel(std::uint64_t bytes) {
  auto came = arriving_->bytes();
  account_.travelled += came.travelled;
  spdlog::debug("session {}: a snapshot of {} bytes: {} travelled, {} were "
                "copied, {} stayed; {} ms",
                parts().lease.session().value, bytes, came.travelled,
                came.copied, came.stayed,
                (clock::now() - current().began) / 1ms);
}

/// Reports the first snapshot to the manager, and later ones from time to time.
void session_snapshots::report(const policy::snapshot_effort& cost) {
  ++account_.count;
  spdlog::debug("session {}: a snapshot of {} bytes took {} ms: {} ms at rest, "
                "{} ms of delays",
                parts().lease.session().value, cost.bytes, cost.took / 1ms,
                cost.stood / 1ms, cost.delayed / 1ms);
  if (arriving_)
    note_travel(cost.bytes);
  account_.longest = std::max(account_.longest, cost.stood);
  auto now = clock::now();
  if (reported_ != clock::time_point{} && now - reported_ < reported_every)
    return;
  reported_ = now;
  const auto& reports = parts().reports;
  auto event = reports.make_event(
      "session-snapshot",
      reports.program() + ": " + std::to_string(account_.count) +
          (account_.count == 1 ? " snapshot was" : " snapshots were") +
          " taken, the last of " + std::to_string(cost.bytes) + " bytes" +
          (parts().worker.is_mapped()
               ? ""
               : ", of which " + std::to_string(account_.travelled) +
                     " travelled in all") +
          "; the time is that of the longest pause");
  event.bytes = cost.bytes;
  event.calls = account_.count;
  event.milliseconds =
      std::chrono::duration<double, std::milli>{account_.longest}.count();
  reports.tell(std::move(event));
  account_ = {};
}

// -- for a read ---------------------------------------------------------------

void session_snapshots::want_cover(std::uint64_t position) {
  // No call is behind the end of the log, whatever the worker says.
  wanted_ = std::min(position, parts().opened.header().tail.load());
  wanted_at_ = clock::now();
  if (wants_cover() && parts().opened.covered() >= wanted_)
    tell_covered();
  if (auto why = impossible(); wants_cover() && !why.empty())
    uncoverable_ = why;
}

/// Tells the worker what is covered. It may hold back a read, and its standby
/// may wait for this.
void session_snapshots::tell_covered() {
  auto covered = parts().opened.covered();
  if (covered >= wanted_)
    wanted_ = 0;
  parts().worker.send(data::covered{covered});
}

// -- taking none --------------------------------------------------------------

/// Lets the session run on under the former snapshot, if there is one.
void session_snapshots::give_up(const std::string& why, bool lasting) {
  if (running())
    parts().worker.send(data::go_on{});
  const auto& reports = parts().reports;
  if (std::exchange(trouble_, why) != why) {
    spdlog::warn("session {}: no snapshot: {}", parts().lease.session().value,
                 why);
    if (lasting)
      reports.tell_event("snapshot-failed",
                         reports.program() + ": no snapshot is taken: " + why +
                             "; its journal grows on");
  }
  retry_later(lasting);
  // Otherwise the program would stand still for ever.
  if (lasting && fills_ &&
      uncovered() > parts().opened.area->log_capacity() / 4 * 3)
    lower_protection(why);
  if (lasting && wants_cover())
    uncoverable_ = why;
  if (!running())
    return;
  abandon();
  parts().listener.on_checkpoint_over();
}

/// Delays the next snapshot; the longer a failed one stopped the devices, the
/// more.
void session_snapshots::retry_later(bool lasting) {
  auto now = clock::now();
  clock::duration wait = retry_after_;
  auto took = running() ? now - current().copies : 0s;
  auto stood = !running() ? 0s
               : runs()   ? current().stood
                          : now - current().stands;
  if (running())
    promise_.note_failure(lasting ? trouble_ : std::string{}, stood, took);
  promise_.tell();
  if (!fills_) {
    wait = std::max<clock::duration>({period(), took, work_per_pause * stood});
  }
  next_ = now + wait;
  wanted_at_ = now + retry_after_;
  retry_after_ = std::min(2 * retry_after_, latest_retry);
}

void session_snapshots::lower_protection(const std::string& why) {
  if (!parts().opened.area->lower_protection())
    return;
  fills_ = false;
  tell_covered();
  const auto& reports = parts().reports;
  reports.tell_event("protection-lowered",
                     "the call log of " + reports.program() +
                         " is full, and no snapshot can be taken: " + why +
                         "; from now on its session is not protected");
}

void session_snapshots::abandon() noexcept {
  checkpoint_taker::abandon();
  arriving_.reset();
}

} // namespace vgpu
