// Checkpoints whose result is a state: from the order to the file.
#include "actors/worker/serve/worker_checkpoint.hpp"

#include "actors/lend/descriptor_parcel.hpp"
#include "actors/link/log.hpp"
#include "actors/state/state_file.hpp"
#include "actors/worker/execute/state_capture.hpp"

#include <utility>

namespace vgpu {

using namespace std::chrono_literals;

void worker_checkpoint::tell(phase_told now) {
  client_.tell(data::checkpointing{wanted_.order, now});
}

void worker_checkpoint::begin(const data::checkpoint& x,
                              std::vector<unique_fd> files) {
  if (phase_ != checkpoint_phase::running)
    return;
  wanted_ = x;
  files_.begin(std::move(files));
  // A whole state that leaves for good needs the room of the kept copies.
  if (!uses_kept_file())
    drop_kept();
  if (!start_standby() && !start_preparation())
    begin_state();
}

void worker_checkpoint::covered(std::uint64_t position) {
  if (position == data::covered::everything) // nothing is ever restored
    give_up_standby();
  else
    standby_.covered(position);
}

void worker_checkpoint::go_on() {
  if (blocks_driver(phase_))
    return restore_process();
  if (makes_ahead(phase_) && wanted_.stands_by)
    give_up_standby(); // nobody knows what it has made
  of_ = subject::state;
  phase_ = checkpoint_phase::running;
  next_.reset();
  dry_run_.reset();
  exec_.abandon_copy();
  settled_.reset();
  files_.forget();
  // The state is too large to keep for the next one. Unchanged contents are
  // then read again, but not sent.
  if (files_.keeps_snapshot() && exec_.used_bytes() > wanted_.in_memory)
    drop_kept();
}

/// Forgets the last snapshot. Freeing its memory takes a while.
void worker_checkpoint::drop_kept() {
  heartbeat_cover beating{heartbeats_};
  exec_.forget_copies();
  files_.drop_snapshot();
}

void worker_checkpoint::look() {
  if (blocks_driver(phase_))
    look_moved();
  if (phase_ == checkpoint_phase::asking)
    look_standby();
  if (phase_ == checkpoint_phase::preparing)
    look_preparation();
  if (phase_ == checkpoint_phase::dry_run)
    look_dry_run();
  if (phase_ == checkpoint_phase::copying)
    copy_on();
  if (phase_ == checkpoint_phase::completing)
    complete_on();
  if (phase_ == checkpoint_phase::stopping && exec_.may_stop())
    look_stopped();
  if (phase_ == checkpoint_phase::settling && settled_->load())
    take_state();
  if (runs_calls(phase_) && !makes_ahead(phase_))
    look_beside();
}

// -- a standby beside the snapshots -------------------------------------------

/// Has a standby make the objects while the session runs or a snapshot is
/// taken, where variables need no test. A snapshot is what a recovery needs
/// first, and must not wait for the standby.
void worker_checkpoint::look_beside() {
  if (!beside_ && standby_.is_ready() && !exec_.needs_dry_run()) {
    auto begun = begin_objects(standby_.begin_making(), kept_elsewhere());
    if (!begun)
      return end_beside(begun.why());
    beside_.emplace(std::move(*begun));
  }
  if (!beside_)
    return;
  if (auto outcome = beside_->look())
    end_beside(*outcome);
  else if (beside_->writes())
    ring_();
}

void worker_checkpoint::end_beside(const status& how) {
  if (!how) {
    spdlog::info("session {}: its standby has not made its objects: {}",
                 identity_.session.value, how.why().what);
    return give_up_standby();
  }
  standby_.made(beside_->position());
  exec_.dry_run_done(beside_->position()); // it was as good as one
  beside_.reset();
}

void worker_checkpoint::standby_changed(const next_worker& to) {
  if (!to) // it has ended
    beside_.reset();
  standby_.changed(to, clock::now());
}

void worker_checkpoint::give_up_standby() {
  beside_.reset();
  standby_.give_up(clock::now());
}

// -- asking and preparing -----------------------------------------------------

/// Has a standby make the objects before the snapshot, if the node has one or
/// starts one, and where that tests whether variables lie elsewhere. Calls are
/// executed meanwhile.
bool worker_checkpoint::start_standby() {
  if (!wanted_.stands_by || !begin_preparation_ || !exec_.has_images() ||
      !standby_.wanted(clock::now(), exec_.needs_dry_run()))
    return false;
  if (!exec_.needs_dry_run())
    return false; // look_beside() has it make them
  phase_ = checkpoint_phase::asking;
  tell(phase_told::copying);
  look_standby();
  return true;
}

/// Continues once the node has answered.
void worker_checkpoint::look_standby() {
  if (standby_.awaited())
    return;
  wanted_.next = standby_.begin_making();
  if (start_preparation())
    return;
  give_up_standby();
  begin_state();
}

/// Returns the file with the copy of the session's memory, where the client is
/// elsewhere: without it, all of a state travels to the next worker. Returns -1
/// where there is none.
int worker_checkpoint::kept_elsewhere() const {
  return client_.is_on_this_host() ? -1 : files_.kept();
}

/// Begins to have a worker make what the session has now. It may read the file
/// `contents`, or none if that is -1.
result<objects_ahead> worker_checkpoint::begin_objects(const next_worker& to,
                                                       int contents) {
  auto pass_on = [this, to, contents](int objects) {
    return begin_preparation_(to, identity_.session, {objects, contents},
                              ring_);
  };
  return objects_ahead::begin(exec_, progress_, heartbeats_, pass_on);
}

/// Has the session's next worker make the objects, if there is one. Calls are
/// executed meanwhile.
bool worker_checkpoint::start_preparation() {
  if (!begin_preparation_ || !wanted_.next || !exec_.has_images())
    return false;
  if (!client_.is_on_this_host() && uses_kept_file() && exec_.copies_ahead())
    (void)choose_file(); // the file may have to be made
  auto begun = begin_objects(wanted_.next, kept_elsewhere());
  if (!begun)
    return false;
  next_.emplace(std::move(*begun));
  phase_ = checkpoint_phase::preparing;
  tell(phase_told::copying);
  ring_();
  return true;
}

void worker_checkpoint::look_preparation() {
  if (auto outcome = next_->look())
    end_preparation(*outcome);
  else if (next_->writes())
    ring_();
}

void worker_checkpoint::end_preparation(const status& how) {
  auto position = next_->position();
  if (!how || wanted_.stands_by)
    next_.reset();
  if (how) {
    exec_.dry_run_done(position); // it was as good as one
    if (wanted_.stands_by)
      standby_.made(position);
    return begin_state();
  }
  if (wanted_.stands_by)
    give_up_standby();
  if (how.why().kind == fault_kind::unsupported)
    return refuse_unlike(how.why());
  spdlog::info("session {}: its next worker has not made all objects ahead: {}",
               identity_.session.value, how.why().what);
  begin_state();
}

void worker_checkpoint::refuse_unlike(const fault& why) {
  refuse("its next worker would not be like this one: " + why.what);
}

// -- dry run ------------------------------------------------------------------

/// Begins a dry run where one is needed. Calls are executed meanwhile, once the
/// modules' images are written. Returns whether the checkpoint has advanced or
/// was refused.
bool worker_checkpoint::start_dry_run() {
  if (!begin_dry_run_ || !exec_.needs_dry_run())
    return false;
  phase_ = checkpoint_phase::dry_run;
  tell(phase_told::copying);
  tried_ = progress_.position();
  tried_at_ = clock::now();
  if (auto ok = launch_dry_run(); !ok)
    refuse(ok.why().what);
  return true;
}

status worker_checkpoint::launch_dry_run() {
  auto file = make_state_memory();
  if (!file)
    return file.why();
  progress_.note();
  auto written = [&] {
    heartbeat_cover beating{heartbeats_};
    return exec_.capture_for_dry_run(file->get());
  }();
  if (!written)
    return written;
  auto begun = begin_dry_run_(file->get(), ring_);
  if (!begun)
    return begun.why();
  dry_run_ = std::move(*begun);
  return {};
}

void worker_checkpoint::look_dry_run() {
  auto outcome = dry_run_->outcome();
  if (!outcome)
    return;
  dry_run_.reset();
  spdlog::info("session {}: a dry run took {} ms", identity_.session.value,
               (clock::now() - tried_at_) / 1ms);
  if (!*outcome)
    return refuse_unlike(outcome->why());
  exec_.dry_run_done(tried_);
  if (exec_.copies())
    phase_ = checkpoint_phase::copying; // a module was loaded meanwhile
  else
    begin_state();
}

// -- copying ------------------------------------------------------------------

/// Returns whether the memory itself goes to the next worker: by way of a
/// client of this host, or directly.
bool worker_checkpoint::lends() const {
  return exec_.can_lend_to(wanted_.lend_to) &&
         (client_.is_on_this_host() || next_);
}

void worker_checkpoint::begin_state() {
  if (start_dry_run())
    return;
  // Check this before anything stands still.
  if (auto ok = exec_.describable(); !ok)
    return refuse(ok.why().what);
  // The next worker may be copying from the kept file.
  if (wanted_.may_leave && lends()) {
    wanted_.go_on = false;
    files_.begin({});
  }
  // Compressed contents have no fixed places, and lent memory is not copied.
  if (wanted_.compress || !exec_.copies_ahead() || lends())
    return stop_calls();
  if (auto ok = begin_copying(); !ok) {
    spdlog::info("session {}: nothing is copied ahead: {}",
                 identity_.session.value, ok.why().what);
    exec_.abandon_copy();
    return stop_calls();
  }
  phase_ = checkpoint_phase::copying;
  tell(phase_told::copying);
}

/// Begins to copy into the state's file. A snapshot's file is written again: by
/// the snapshot after the next one, or by the next one, or the state with which
/// the session leaves, if the client has a copy.
status worker_checkpoint::begin_copying() {
  if (auto ok = choose_file(); !ok)
    return ok;
  return exec_.begin_copy(files_.state(), wanted_.go_on, ring_);
}

void worker_checkpoint::copy_on() {
  auto ready = exec_.copy_on();
  if (ready && !*ready)
    return;
  if (!ready) {
    spdlog::warn("session {}: its memory cannot be copied ahead: {}",
                 identity_.session.value, ready.why().what);
    exec_.abandon_copy();
  }
  stop_calls();
}

// -- stopping and settling ----------------------------------------------------

void worker_checkpoint::stop_calls() {
  if (of_ == subject::state && start_dry_run())
    return;
  phase_ = checkpoint_phase::stopping;
  tell(phase_told::stopping);
}

void worker_checkpoint::look_stopped() {
  phase_ = checkpoint_phase::settling;
  settled_ = std::make_shared<std::atomic<bool>>(false);
  exec_.when_idle([ring = ring_, done = settled_] {
    done->store(true);
    ring();
  });
}

void worker_checkpoint::take_state() {
  if (of_ == subject::process)
    return release();
  auto began = clock::now();
  tell(phase_told::resting);
  if (auto ok = choose_file(); !ok)
    return refuse(ok.why().what);
  progress_.note();
  auto before = exec_.account().device_time();
  auto bytes = [&] {
    heartbeat_cover beating{heartbeats_};
    auto written = write();
    exec_.account().charge_apart(exec_.account().device_time() - before);
    return written;
  }();
  if (!bytes)
    return refuse(bytes.why().what);
  // If the next worker maps the log, the program's memory must have this.
  client_.settle_answers(true);
  settled_.reset();
  std::chrono::nanoseconds pause = clock::now() - began;
  taken_ = {.position = progress_.position(),
            .answers = client_.forwarded(),
            .pause_ns = static_cast<std::uint64_t>(pause.count()),
            .order = wanted_.order,
            .on_disk = files_.is_on_disk(),
            .leaves = wanted_.may_leave && !wanted_.go_on};
  // Until here the snapshot covers what was executed.
  if (is_ordered_by_client())
    client_.tell(progress_.now());
  if (*bytes)
    return hand_over(**bytes);
  phase_ = checkpoint_phase::completing;
  tell(phase_told::completing);
  ring_();
}

/// Writes what the devices keep. Calls are executed meanwhile.
void worker_checkpoint::complete_on() {
  auto ready = exec_.copy_on();
  if (ready && !*ready)
    return;
  auto bytes = ready ? exec_.finish_copy() : ready.why();
  if (!bytes)
    return refuse(bytes.why().what);
  hand_over(*bytes);
}

void worker_checkpoint::hand_over(std::uint64_t bytes) {
  taken_.bytes = bytes;
  taken_.delayed_ns =
      static_cast<std::uint64_t>(exec_.copies_delayed().count());
  files_.note_written();
  phase_ =
      wanted_.go_on ? checkpoint_phase::running : checkpoint_phase::stopped;
  // A client would resume a session whose checkpoint it did not order.
  if (is_ordered_by_client()) {
    client_.tell(taken_, files_.handed_over());
    if (client_.is_on_this_host())
      files_.note_taken(wanted_.go_on);
  }
  to_.ended({});
}

status worker_checkpoint::choose_file() {
  return files_.choose(uses_kept_file(),
                       exec_.used_bytes() > wanted_.in_memory);
}

/// Writes the state, and returns its size; nothing where complete_on() has to
/// write what the devices keep. Completes what was copied ahead. Where that
/// fails, as on a host that does not let a process read memory, copies
/// everything now.
result<std::optional<std::uint64_t>> worker_checkpoint::write() {
  using written = std::optional<std::uint64_t>;
  if (!exec_.copies() && lends()) {
    auto bytes = write_lending();
    if (bytes)
      return written{*bytes};
    spdlog::info("session {}: its memory is copied, and not handed over: {}",
                 identity_.session.value, bytes.why().what);
  }
  if (exec_.copies()) {
    auto ok = exec_.describe_copy();
    if (ok && exec_.keeps_copies())
      return written{};
    auto bytes = ok ? exec_.finish_copy() : ok.why();
    if (bytes)
      return written{*bytes};
    exec_.abandon_copy();
    spdlog::info("session {}: its copied state cannot be completed: {}",
                 identity_.session.value, bytes.why().what);
  }
  auto bytes = exec_.capture(files_.state(), wanted_.compress);
  return bytes ? written{*bytes} : result<written>{bytes.why()};
}

/// Writes a state that lends its memory, with a few descriptors for all of it.
result<std::uint64_t> worker_checkpoint::write_lending() {
  std::vector<device::shared_descriptor> lent;
  auto bytes = exec_.capture(files_.state(), false, &lent);
  if (!bytes)
    return bytes;
  std::vector<int> numbers;
  numbers.reserve(lent.size());
  for (auto& x : lent)
    numbers.push_back(x->get());
  if (lent.empty())
    return bytes;
  auto parcel = pack_descriptors(numbers);
  if (!parcel)
    return parcel.why();
  if (!client_.is_on_this_host()) {
    auto passed = next_->maker().lend(progress_.position(), parcel->get());
    return passed ? bytes : passed.why();
  }
  files_.lend(std::move(*parcel));
  return bytes;
}

/// Gives a state up: the process is checkpointed in its place, or the session
/// continues and the client gets the reason.
void worker_checkpoint::refuse(const std::string& why) {
  if (begin_process(why))
    return;
  spdlog::warn("session {}: no state is taken: {}", identity_.session.value,
               why);
  go_on();
  to_.ended(fault{fault_kind::unsupported, why});
  client_.tell(data::not_checkpointed{why});
}

} // namespace vgpu
