// A worker that stops at a call, hands over its session's state, or begins with
// one.
#include "actors/lend/descriptor_parcel.hpp"
#include "actors/state/state_file.hpp"
#include "actors/worker/serve/session_server_mapped.hpp"

#include <spdlog/spdlog.h>

#include <fcntl.h>
#include <unistd.h>

namespace vgpu {

using namespace std::chrono_literals;

/// To the client, wherever it is.
void session_server::tell_client(data::body body) {
  if (guest_here_)
    (void)send_packet(
        mapped_->client.get(),
        data::encode({options_.session, options_.epoch, std::move(body)}));
  else if (!client_.empty())
    send(client_, std::move(body));
}

/// `files`: where a client on this host wants the state, in memory and perhaps
/// on a disk; none: in a file of ours.
void session_server::stop(const data::checkpoint& x,
                          std::vector<unique_fd> files) {
  if (gait_ != gait::running)
    return;
  wanted_ = x;
  places_ = std::move(files);
  state_ = unique_fd{};
  // What is handed over for good needs the room.
  if (!x.go_on) {
    exec_->forget_copies();
    kept_ = unique_fd{};
  }
  begin_state();
}

/// Whether the memory itself goes to the next worker.
bool session_server::lends() const {
  return guest_here_ && exec_->can_lend_to(wanted_.lend_to);
}

/// Begins one where it has to be tried first what the next worker can make
/// again. Calls are executed meanwhile, once the modules' images are written.
bool session_server::begins_dry_run() {
  if (!options_.dry_run || !exec_->needs_dry_run())
    return false;
  gait_ = gait::dry_run;
  tell_phase(data::checkpointing::phase::copying);
  tried_ = position_;
  dry_run_began_ = clock::now();
  auto begin = [this]() -> status {
    auto file = make_state_memory();
    if (!file)
      return file.why();
    known_ = progress();
    heartbeat_thread_.leave();
    auto written = exec_->capture_for_dry_run(file->get());
    heartbeat_thread_.back();
    if (!written)
      return written;
    auto begun = options_.dry_run(file->get(), [this] { ring(); });
    if (!begun)
      return begun.why();
    dry_run_ = std::move(*begun);
    return {};
  };
  if (auto ok = begin(); !ok)
    refuse_state(ok.why().what);
  return true;
}

void session_server::look_dry_run() {
  auto outcome = dry_run_->outcome();
  if (!outcome)
    return;
  dry_run_.reset();
  spdlog::info("session {}: a dry run took {} ms", options_.session.value,
               (clock::now() - dry_run_began_) / 1ms);
  if (!*outcome)
    return refuse_state("its next worker would not be like this one: " +
                        outcome->why().what);
  exec_->dry_run_done(tried_);
  if (exec_->copies())
    gait_ = gait::copying; // and something was loaded meanwhile
  else
    begin_state();
}

void session_server::begin_state() {
  if (begins_dry_run())
    return;
  // Before anything stands still for it.
  if (auto ok = exec_->describable(); !ok)
    return refuse_state(ok.why().what);
  // What is to be compressed has no place that it could keep, and what is
  // handed over is not copied.
  if (wanted_.compress || !exec_->copies_ahead() || lends())
    return stop_calls();
  if (auto ok = begin_copying(); !ok) {
    spdlog::info("session {}: nothing is copied ahead: {}",
                 options_.session.value, ok.why().what);
    exec_->abandon_copy();
    return stop_calls();
  }
  gait_ = gait::copying;
  tell_phase(data::checkpointing::phase::copying);
}

void session_server::go_on() {
  if (away())
    return come_back();
  goes_aside_ = false;
  gait_ = gait::running;
  dry_run_.reset();
  exec_->abandon_copy();
  settled_.reset();
  places_.clear();
  state_ = unique_fd{};
  lent_ = unique_fd{};
  // Too much to be kept for the next one. What did not change is read once more
  // then, and travels as little.
  if (kept_ && exec_->used_bytes() > wanted_.in_memory) {
    exec_->forget_copies();
    kept_ = unique_fd{};
  }
}

/// A host function that has its turn before it needs a later call to end.
bool session_server::takes_calls() {
  if (inflow_)
    return false;
  return gait_ < gait::stopping ||
         (gait_ == gait::stopping && !exec_->may_stop());
}

void session_server::tell_phase(data::checkpointing::phase now) {
  tell_client(data::checkpointing{wanted_.order, now});
}

/// A snapshot's file is written again: by the one after the next, or by the
/// next, where the client has a copy.
status session_server::begin_copying() {
  if (auto ok = choose_file(); !ok)
    return ok;
  return exec_->begin_copy(state_.get(), wanted_.go_on, [this] { ring(); });
}

void session_server::copy_on() {
  auto ready = exec_->copy_on();
  if (ready && !*ready)
    return;
  if (!ready) {
    spdlog::warn("session {}: its memory cannot be copied ahead: {}",
                 options_.session.value, ready.why().what);
    exec_->abandon_copy();
  }
  stop_calls();
}

void session_server::stop_calls() {
  if (!goes_aside_ && begins_dry_run())
    return;
  gait_ = gait::stopping;
  tell_phase(data::checkpointing::phase::stopping);
}

void session_server::look_settled() {
  if (helper_)
    look_aside();
  if (gait_ == gait::dry_run)
    look_dry_run();
  if (gait_ == gait::copying)
    copy_on();
  if (gait_ == gait::stopping && exec_->may_stop()) {
    gait_ = gait::settling;
    settled_ = std::make_shared<std::atomic<bool>>(false);
    exec_->when_idle([this, done = settled_] {
      done->store(true);
      ring();
    });
  }
  if (gait_ == gait::settling && settled_->load())
    take_state();
}

/// The state's file, if there is none yet.
status session_server::choose_file() {
  if (state_)
    return {};
  on_disk_ = places_.size() > 1 && exec_->used_bytes() > wanted_.in_memory;
  if (!places_.empty()) {
    state_ = std::move(places_[on_disk_ ? 1 : 0]);
    return {};
  }
  auto& file = wanted_.go_on ? kept_ : state_;
  if (!file) {
    auto fresh = make_state_memory();
    if (!fresh)
      return fresh.why();
    file = std::move(*fresh);
  }
  if (wanted_.go_on)
    state_ = unique_fd{::fcntl(kept_.get(), F_DUPFD_CLOEXEC, 0)};
  if (!state_)
    return fault{CUDA_ERROR_OPERATING_SYSTEM,
                 "no descriptor is left for a state"};
  return {};
}

/// The memory goes along, with a few descriptors for all of it.
result<std::uint64_t> session_server::write_lending() {
  std::vector<device::shared_descriptor> lent;
  auto bytes = exec_->capture(state_.get(), false, &lent);
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
  lent_ = std::move(*parcel);
  return bytes;
}

/// What was copied ahead is completed. Where that does not work, as on a host
/// that lets nobody look at memory, all is copied now.
result<std::uint64_t> session_server::write_state() {
  if (!exec_->copies() && lends()) {
    auto bytes = write_lending();
    if (bytes)
      return bytes;
    spdlog::info("session {}: its memory is copied, and not handed over: {}",
                 options_.session.value, bytes.why().what);
  }
  if (exec_->copies()) {
    auto bytes = exec_->finish_copy();
    if (bytes)
      return bytes;
    spdlog::info("session {}: its copied state cannot be completed: {}",
                 options_.session.value, bytes.why().what);
  }
  return exec_->capture(state_.get(), wanted_.compress);
}

void session_server::refuse_state(const std::string& why) {
  if (begins_aside(why))
    return;
  spdlog::warn("session {}: no state is taken: {}", options_.session.value,
               why);
  go_on();
  tell_client(data::not_checkpointed{why});
}

void session_server::take_state() {
  if (goes_aside_)
    return leave();
  auto began = clock::now();
  tell_phase(data::checkpointing::phase::resting);
  if (auto ok = choose_file(); !ok)
    return refuse_state(ok.why().what);
  known_ = progress();
  heartbeat_thread_.leave();
  auto before = exec_->account().device_time();
  auto bytes = write_state();
  exec_->account().charge_apart(exec_->account().device_time() - before);
  heartbeat_thread_.back();
  if (!bytes)
    return refuse_state(bytes.why().what);
  // Where the log is mapped next, the program's memory must have it.
  if (forwarded_)
    forwarded_->tell_now();
  send_answers();
  std::chrono::nanoseconds pause = clock::now() - began;
  data::checkpointed news{.position = position_,
                          .bytes = *bytes,
                          .answers = forwarded_ ? forwarded_->count() : 0,
                          .pause_ns = static_cast<std::uint64_t>(pause.count()),
                          .order = wanted_.order,
                          .on_disk = on_disk_};
  settled_.reset();
  places_.clear();
  gait_ = wanted_.go_on ? gait::running : gait::stopped;
  if (!guest_here_)
    return tell_client(news);
  int descriptors[] = {state_.get(), lent_.get()};
  (void)send_packet(mapped_->client.get(),
                    data::encode({options_.session, options_.epoch, news}),
                    std::span{descriptors}.first(lent_ ? 2 : 1));
  lent_ = unique_fd{};
  // The client has it now.
  if (wanted_.go_on)
    state_ = unique_fd{};
}

/// With what came along.
status session_server::restore_from(packet& hello, bool adopt) {
  constexpr auto place = session_area::descriptor_count + 1;
  auto file = hello.descriptors[place].get();
  if (hello.descriptors.size() <= place + 1)
    return restore(file, adopt);
  auto state = state_reader::open(file);
  if (!state)
    return state.why();
  auto lent = unpack_descriptors(hello.descriptors[place + 1].get(),
                                 state->index().lent.size());
  if (!lent)
    return lent.why();
  return restore(file, adopt, std::move(*lent));
}

status session_server::restore(int file, bool adopt,
                               std::vector<unique_fd> lent) {
  if (!broken_.empty())
    return fault{CUDA_ERROR_UNKNOWN, broken_};
  known_ = progress();
  heartbeat_thread_.leave();
  exec_->account().begin_recovery();
  auto position = exec_->restore(file, adopt, std::move(lent));
  heartbeat_thread_.back();
  if (!position) {
    broken_ =
        "the session's state cannot be restored here: " + position.why().what;
    spdlog::error("session {}: {}", options_.session.value, broken_);
    return fault{position.why().code, broken_};
  }
  position_ = *position;
  received_ = std::max(received_, position_);
  told_ = position_;
  restored_ = true;
  return {};
}

// -- a state that travels
// ---------------------------------------------------------

void session_server::on(const data::state_wanted& x) {
  if (!state_)
    return;
  auto size = ::lseek(state_.get(), 0, SEEK_END);
  auto part = part_of_state(state_.get(), static_cast<std::uint64_t>(size), x);
  if (!part)
    return;
  vgpu::dispatch frames;
  frames.peer = client_;
  put_frames(frames,
             data::encode(
                 {options_.session, options_.epoch, data::state_part{x.from}}),
             *part, part);
  (void)socket_->send(frames);
}

void session_server::begin_inflow(std::uint64_t bytes) {
  // A client that came back goes on where the connection broke.
  if (inflow_ && inflow_->bytes() == bytes) {
    inflow_->ask_again();
  } else {
    auto begun = state_inflow::begin(bytes);
    if (!begun)
      return send(client_, data::refused{begun.why().what});
    inflow_ = std::move(*begun);
  }
  ask_for_state();
}

void session_server::ask_for_state() {
  while (auto wanted = inflow_->want())
    send(client_, *wanted);
}

void session_server::on(const data::state_part& x, const parcel_ptr& in) {
  if (!inflow_)
    return;
  if (auto ok = inflow_->take(x.from, in->bulk()); !ok)
    return send(client_, data::refused{ok.why().what});
  if (!inflow_->complete())
    return ask_for_state();
  auto done = restore(inflow_->file(), false);
  inflow_.reset();
  if (!done)
    return send(client_, data::refused{done.why().what});
  begin_replay(replay_wanted_);
  send(client_, attached());
  look_replayed();
}

} // namespace vgpu
