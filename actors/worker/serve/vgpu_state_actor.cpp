#include "actors/worker/serve/vgpu_state_actor.hpp"

#include "actors/link/log.hpp"
#include "actors/records/directory.hpp"
#include "actors/worker/session/worker_bounds.hpp"

#include <utility>

namespace vgpu {

namespace {

using namespace std::chrono_literals;

/// Says how often the client gets a sign of life while a call is executed.
constexpr auto beat_every = 50ms;

} // namespace

vgpu_state_actor::vgpu_state_actor(caf::actor_config& cfg,
                                   vgpu_actor_options options,
                                   std::unique_ptr<executor> exec,
                                   std::unique_ptr<link_socket> socket,
                                   unique_fd listener,
                                   std::shared_ptr<session_gauges> gauges,
                                   session_done done)
    : polling_actor(cfg),
      options_(std::move(options)), identity_{options_.session, options_.epoch,
                                              options_.token},
      exec_(std::move(exec)), gauges_(std::move(gauges)),
      done_(std::move(done)), name_(logical_name(options_.vgpu)),
      silence_(options_.lease_term, options_.abandoned_after, clock::now()),
      mapped_(identity_, *exec_, gauges_->busy, std::move(listener),
              [this] { ring(); }),
      forwarded_(identity_, *exec_, silence_, std::move(socket),
                 [this] { ring(); }),
      client_(mapped_, forwarded_),
      progress_(*exec_, client_, gauges_->account, gauges_->busy),
      guard_(*exec_, client_, progress_, [this] { ring(); }),
      cover_(*exec_, client_, progress_),
      zero_copy_(*exec_, forwarded_, silence_, progress_, heartbeats_),
      arrival_(identity_, *exec_, forwarded_, progress_, heartbeats_,
               std::move(options_.contents), std::move(options_.lent)),
      checkpoint_(identity_, *exec_, progress_, client_, heartbeats_,
                  {options_.dry_run, options_.gpu_mover, options_.preparation,
                   options_.tell_of_standby},
                  [this] { ring(); },
                  {[this](const std::string& why) { end(why, false); },
                   [this](const status& how) {
                     // The work may have failed. Then the program's read gets
                     // that error, and needs no cover.
                     cover_.look();
                     if (auto told = std::exchange(pause_ended_, nullptr))
                       told(how);
                   }}),
      ahead_(*exec_), mapped_polls_(options_.mapped_busy_poll),
      forwarded_polls_(options_.forwarded_busy_poll),
      heartbeats_(beat_every, [this](auto took) { beat(took); }) {
  gauges_->account.watch([exec = exec_.get()] {
    auto& account = exec->account();
    return usage_meter::reading{account.used(), exec->used_bytes(),
                                exec->calls(), account.worked()};
  });
  gauges_->busy.watch(
      [exec = exec_.get()] { return exec->account().device_times(); });
}

vgpu_state_actor::~vgpu_state_actor() {
  // act() did this where it ended.
  gauges_->account.forget();
  gauges_->busy.forget();
}

void vgpu_state_actor::act() {
  while (!is_over()) {
    wait();
    silence_.turn(clock::now());
    read_mailbox();
    for (auto& [words, socket] : mapped_.receive_greetings())
      attach_guest(words, std::move(socket));
    if (mapped_.client_speaks())
      read_guest();
    if (forwarded_.connections_ready())
      forwarded_.note_connections();
    if (step_ == session_step::out_of_turn)
      step_ = session_step::between_calls;
    if (forwarded_.messages_ready())
      read_messages();
    else
      silence_.drained();
    if (is_over())
      break;
    execute_log();
    execute_forwarded();
    if (checkpoint_.phase() == checkpoint_phase::running && zero_copy_.is_due())
      zero_copy_.relay();
    if (guard_.holds())
      look_replayed();
    pause_if_compared();
    look_covered();
    checkpoint_.look();
    if (!blocks_driver(checkpoint_.phase()))
      exec_->gates().rest();
    forwarded_.send_answers();
    if (!guard_.holds()) // it tells of them itself
      progress_.tell_differences();
    if (step_ == session_step::out_of_turn) {
      exec_->rest(); // waiting must not count as its work's time
      await_turn();
    }
    progress_.tell_first_answer();
    progress_.tell_account();
    check_device();
    publish();
    check_abandoned();
  }
  gauges_->account.forget();
  gauges_->busy.forget();
  // The devices' threads may answer until the executor is destroyed.
  exec_.reset();
  guard_.forget();
  // Nobody can connect to this worker from here on, even while somebody holds
  // it.
  mapped_.close();
  answer_gone();
}

// -- waiting ------------------------------------------------------------------

std::chrono::milliseconds vgpu_state_actor::patience() const {
  if (step_ == session_step::out_of_turn)
    return 0ms;
  // A program whose calls are not read rings for none of them.
  if (cover_.holds() && !exec_->may_stop())
    return 2ms;
  if (mapped_.has_client())
    return -1ms;
  // ZeroMQ does not say when a peer's queue has room again.
  if (forwarded_.waits_for_room())
    return 2ms;
  if (checkpoint_.phase() == checkpoint_phase::running && zero_copy_.is_due())
    return zero_copy_relay::every;
  // Without a client, it regularly checks whether that has lasted too long. A
  // lease's holder sends as often, so these turns cost nothing.
  return silence_.attached() ? client_silence::most_between_turns * 2 / 3
                             : 1000ms;
}

void vgpu_state_actor::wait() {
  // A busy program is served without a system call. Sockets are polled from
  // time to time.
  constexpr unsigned rounds_unpolled = 64;
  mapped_.forget_ready();
  forwarded_.forget_ready();
  auto began = clock::now();
  auto polls = step_ != session_step::out_of_turn &&
               runs_calls(checkpoint_.phase()) && guard_.takes_calls() &&
               !cover_.holds();
  if (mapped_.has_client() && polls && ++unpolled_ < rounds_unpolled &&
      poll_log(began))
    return;
  unpolled_ = 0;
  sleep(began, polls);
}

/// Busy-polls the log. Returns true when a call came before it was time to
/// sleep.
bool vgpu_state_actor::poll_log(clock::time_point began) {
  auto found = [this] {
    for (int i = 0; i < 64; ++i) {
      if (mapped_.has_call())
        return true;
      __builtin_ia32_pause();
    }
    return called();
  };
  if (!mapped_polls_.wait_for(began, found))
    return false;
  heard();
  return true;
}

/// Sleeps until something is ready. With `polls` it first busy-polls for
/// messages of a client elsewhere.
void vgpu_state_actor::sleep(clock::time_point began, bool polls) {
  std::vector<pollfd> items;
  mapped_.add_to(items);
  forwarded_.add_to(items);
  auto overlooked = forwarded_.overlooked();
  auto reads = mapped_.has_client() && takes_calls();
  auto asleep = reads && mapped_.fall_asleep();
  polls = polls && forwarded_.has_client() && !silence_.lapsed() && !overlooked;
  auto nothing = [] { return false; };
  auto has_messages = [&] { return forwarded_.has_messages(items); };
  if (!polls ||
      !busy_poll_on(items, forwarded_polls_, nothing, has_messages, began)) {
    if (!blocks_driver(checkpoint_.phase()))
      exec_->rest();
    gauges_->account.look();
    sleep_on(items, overlooked || (reads && !asleep) ? 0ms : patience());
    if (asleep || polls)
      (asleep ? mapped_polls_ : forwarded_polls_).learned(clock::now() - began);
  }
  mapped_.note_ready(items);
  forwarded_.note_ready(items, overlooked);
}

// -- events -------------------------------------------------------------------

void vgpu_state_actor::read_mailbox() {
  if (mailbox().empty())
    return; // making the handlers takes as long as reading some messages
  receive_while([this] { return !mailbox().empty(); })(
      [this](const where_is_vgpu&) { return where(); },
      [this](const pause_vgpu& x) { return answer(x); },
      [this](const describe_vgpu& x) { return answer(x); },
      [this](const adopt_vgpu& x) { return answer(x); },
      [this](const resume_vgpu& x) { return answer(x); },
      [this](const resize_vgpu& x) {
        if (!is_over())
          exec_->allow(x.quota);
      },
      [this](const break_device& x) {
        if (!is_over())
          exec_->inject(x.ordinal, x.fault);
      },
      [this](const standby_changed& x) {
        checkpoint_.standby_changed(x.standby);
      },
      [this](caf::exit_msg& x) { take(x); },
      caf::others >> [](caf::message_view&) -> caf::result<caf::message> {
        return caf::sec::unexpected_message;
      });
}

void vgpu_state_actor::check_lease() {
  if (!forwarded_.has_client() || !silence_.lapses(clock::now()))
    return;
  spdlog::warn("session {}: the client has been silent for {} ms; no call is "
               "executed until it shows its lease again",
               options_.session.value, options_.lease_term.count());
}

/// Returns whether a forwarded call may begin now.
bool vgpu_state_actor::holds_lease() {
  silence_.turn(clock::now());
  check_lease();
  return !silence_.lapsed();
}

void vgpu_state_actor::check_abandoned() {
  check_lease();
  if (!mapped_.has_client() && silence_.abandoned(clock::now()))
    end("no client for " + std::to_string(options_.abandoned_after.count()) +
        " ms");
}

/// Ends the session here where a device failed by itself, or cannot have what
/// the program has. That is not the program's fault, so the program gets no
/// error, and another worker recovers the session.
void vgpu_state_actor::check_device() {
  if (exec_->lost() != CUDA_SUCCESS)
    end(exec_->loss(), false);
}

void vgpu_state_actor::end(const std::string& why, bool clean) {
  step_ = session_step::over;
  // The process may end as soon as this is known.
  (void)progress_.charge();
  gauges_->account.look();
  done_(why, clean);
}

void vgpu_state_actor::publish() {
  gauges_->calls = exec_->calls();
  gauges_->position = progress_.position();
  if (gauges_->memory.exchange(exec_->used_bytes()) != exec_->used_bytes())
    gauges_->account.look();
  gauges_->quota = exec_->quota();
  auto beside = exec_->account().side_memory();
  gauges_->variables = beside.variables;
  gauges_->code = beside.code;
  gauges_->context = beside.context;
  gauges_->error = static_cast<std::uint32_t>(exec_->error());
  auto* log = mapped_.log();
  if (log == nullptr)
    return;
  log->area->publish_executed(exec_->executed());
  if (mapped_.has_client())
    log->area->note_charged(progress_.charge());
}

// -- calls --------------------------------------------------------------------

bool vgpu_state_actor::takes_calls() const {
  return exec_->lost() == CUDA_SUCCESS && !arrival_.is_under_way() &&
         checkpoint_.takes_calls() && guard_.takes_calls() && !cover_.holds();
}

/// Executes a call. It may take longer than a client waits for a sign of life,
/// for example to compile a module or to clear memory. Returns false where it
/// is not the session's turn, or the call is held back.
bool vgpu_state_actor::execute(const record& what,
                               std::shared_ptr<const void> owner) {
  step_ = session_step::in_call;
  heartbeats_.begin();
  auto done = exec_->execute(what, std::move(owner));
  heartbeats_.end();
  auto lacks_cover = exec_->lacks_cover();
  if (lacks_cover)
    cover_.hold();
  step_ = done || lacks_cover ? session_step::between_calls
                              : session_step::out_of_turn;
  return done;
}

void vgpu_state_actor::after_call(std::uint64_t position) {
  progress_.reached(position);
  look_replayed();
}

void vgpu_state_actor::execute_log() {
  // Sockets and mailbox get their turn in between.
  constexpr int most = 256;
  if (!mapped_.has_client())
    return;
  auto& reader = mapped_.log()->reader;
  served_calls measured{progress_};
  for (int i = 0; i < most && takes_calls(); ++i) {
    auto got = reader.next();
    if (!got) {
      spdlog::error("session {}: {}", options_.session.value, got.why().what);
      return end(got.why().what);
    }
    if (!*got)
      break;
    // The log stays mapped as long as devices copy from it.
    if (!execute(**got, nullptr)) {
      reader.rewind(progress_.position());
      break;
    }
    measured.add();
    after_call((*got)->end);
  }
}

/// Returns whether too many answers are under way for further calls. Those that
/// are held until a replay ends must not stop it.
bool vgpu_state_actor::answers_congested() const {
  return !guard_.holds() && forwarded_.answers()->congested(!exec_->may_stop());
}

void vgpu_state_actor::execute_forwarded() {
  if (forwarded_.has_calls())
    progress_.note();
  served_calls measured{progress_};
  while (forwarded_.has_calls() && holds_lease() && !answers_congested() &&
         takes_calls()) {
    auto position = progress_.position();
    auto got = forwarded_.next(position);
    if (!got) {
      spdlog::error("session {}: {}", options_.session.value, got.why().what);
      return end(got.why().what);
    }
    if (!execute(*got, forwarded_.owner()))
      break;
    measured.add();
    auto end_of_call = got->end;
    forwarded_.drop(end_of_call - position);
    after_call(end_of_call);
    if (!progress_.is_far())
      continue;
    progress_.note_reported();
    (void)progress_.charge();
    progress_.note();
    forwarded_.send(progress_.latest());
  }
  // The reads whose answers are too many may wait for what a later call says,
  // where a stream waits for the program.
  if (!exec_->may_stop() && forwarded_.has_calls() && answers_congested() &&
      holds_lease() && takes_calls())
    look_ahead();
}

/// Sleeps until the session may have its turn, or there is room for its work.
/// Serves sockets, mailbox and answers meanwhile.
void vgpu_state_actor::await_turn() {
  constexpr auto most = 20ms;
  // The pending work may wait for what a later call says.
  if (exec_->waits_for_room())
    look_ahead();
  if (!called())
    exec_->await_turn(most);
}

/// Looks after a read that is held back. Later calls may end the host functions
/// and late copies without which the session does not come to rest.
void vgpu_state_actor::look_covered() {
  if (!cover_.holds())
    return;
  cover_.look();
  if (exec_->may_stop())
    return;
  look_ahead();
  exec_->end_waits_ahead();
  if (cover_.held_for() > options_.cover_within)
    checkpoint_.give_up("a host function or a wait for a value has not ended "
                        "before a read that waits for a snapshot");
}

/// Examines the calls after the one that is executed, or all that are not. No
/// other thread does so.
void vgpu_state_actor::look_ahead() {
  if (auto* log = mapped_.log(); log != nullptr)
    return ahead_.look(*log);
  ahead_.look(forwarded_, progress_.position(), step_ == session_step::in_call);
}

/// Ends a replay that is done. After a snapshot there may be nothing to replay.
void vgpu_state_actor::look_replayed() {
  guard_.look();
  if (!progress_.is_news() || guard_.holds())
    return;
  zero_copy_.end_replay();
  progress_.tell_replayed();
}

/// Gives a sign of life, on the heartbeat thread. While a call is executed,
/// this thread may use nothing of the executor but what calls_ahead uses.
void vgpu_state_actor::beat(std::chrono::milliseconds took) {
  if (step_ == session_step::in_call) {
    look_ahead();
    // A client on this host needs no signs of life, because it sees the log
    // itself.
    if (mapped_.log() != nullptr)
      return;
  }
  silence_.turn(clock::now());
  // Strangers' connections end in time, and nobody who keeps sending keeps the
  // call from ending.
  forwarded_.note_connections();
  for (auto i = 0; i < worker_bounds::read_in_call; ++i) {
    auto in = forwarded_.receive();
    if (!in) {
      silence_.drained();
      break;
    }
    if (take_lapsed(in))
      continue;
    if (forwarded_.receive_in_call(std::move(in)))
      silence_.heard(clock::now());
  }
  check_lease();
  if (silence_.lapsed() || !forwarded_.has_client())
    return;
  forwarded_.send_answers();
  if (took < options_.longest_call)
    forwarded_.send(progress_.latest());
}

} // namespace vgpu
