// The five questions to a vGPU, from the mailbox or a client, and the answers.
#include "actors/worker/serve/vgpu_state_actor.hpp"

#include "actors/link/log.hpp"
#include "actors/records/directory.hpp"

#include <utility>

namespace vgpu {

// -- where --------------------------------------------------------------------

vgpu_phase vgpu_state_actor::phase() const noexcept {
  if (is_over())
    return vgpu_phase::gone;
  if (step_ == session_step::arriving || arrival_.is_under_way())
    return vgpu_phase::arriving;
  switch (checkpoint_.phase()) {
  case checkpoint_phase::running:
    return postponed_ ? vgpu_phase::pausing : vgpu_phase::serving;
  case checkpoint_phase::stopped:
  case checkpoint_phase::checkpointed:
    return vgpu_phase::paused;
  case checkpoint_phase::returning:
    return vgpu_phase::arriving;
  default:
    return vgpu_phase::pausing;
  }
}

vgpu_place vgpu_state_actor::where() const {
  return {.name = name_,
          .session = identity_.session,
          .epoch = identity_.epoch,
          .endpoints = options_.endpoints,
          .phase = phase(),
          .position = {progress_.position()}};
}

// -- pause --------------------------------------------------------------------

/// Begins a checkpoint, unless one is under way. `ended` receives the outcome.
status vgpu_state_actor::pause(const data::checkpoint& x,
                               std::vector<unique_fd> files,
                               checkpoint_ended ended) {
  switch (phase()) {
  case vgpu_phase::serving:
    pause_ended_ = std::move(ended);
    postponed_ = {x, std::move(files)};
    pause_if_compared();
    return {};
  case vgpu_phase::paused:
    if (ended)
      ended({});
    return {};
  default:
    return fault{fault_kind::not_ready,
                 "it is not serving, or another checkpoint is under way; ask "
                 "again when it serves"};
  }
}

/// Begins the checkpoint that was ordered. A state of a replay that may differ
/// is none of the program's.
void vgpu_state_actor::pause_if_compared() {
  if (!postponed_ || guard_.holds())
    return;
  auto x = std::move(*postponed_);
  postponed_.reset();
  checkpoint_.begin(x.order, std::move(x.files));
}

// -- describe -----------------------------------------------------------------

result<vgpu_description> vgpu_state_actor::describe() const {
  if (phase() != vgpu_phase::paused)
    return fault{fault_kind::not_ready, "it is not paused; pause it first"};
  auto state = checkpoint_.state();
  if (!state)
    return state.why();
  return vgpu_description{
      .epoch = identity_.epoch,
      .position = {progress_.position()},
      .state = std::make_shared<const unique_fd>(std::move(state->file)),
      .bytes = state->bytes};
}

/// Sends a part of what describe() returns to a client elsewhere. A snapshot's
/// parts are sent while the session continues.
void vgpu_state_actor::describe(const data::state_wanted& x) {
  if (auto part = checkpoint_.part(x); part != nullptr)
    forwarded_.send_part({x.from}, std::move(part));
}

// -- adopt --------------------------------------------------------------------

/// Takes the log that a client of this host hands over, and the state that
/// comes with it.
status vgpu_state_actor::adopt(packet& hello, const data::attach& x) {
  auto restores = arrival_.is_wanted(x);
  unique_fd opener;
  if (x.opens_files && !hello.descriptors.empty()) {
    opener = std::move(hello.descriptors.back());
    hello.descriptors.pop_back();
  }
  auto ok = mapped_.adopt(hello, restores, progress_.position());
  if (ok)
    mapped_.log()->files->opened_at(std::move(opener));
  if (!ok)
    return ok;
  return restores ? arrival_.restore(hello, x) : arrival_.come_without();
}

/// Begins to take a state from a client elsewhere, in parts. Returns true where
/// there is no state to take.
bool vgpu_state_actor::adopt(const data::attach& x) {
  if (!arrival_.is_wanted(x))
    return true;
  arrival_.begin(x);
  return false;
}

/// Takes a state from a file, for a program elsewhere.
status vgpu_state_actor::adopt(const shared_file& state, bool keeps_file) {
  if (step_ != session_step::arriving || arrival_.is_under_way() ||
      arrival_.is_done())
    return fault{fault_kind::not_ready,
                 "it has a session already; have another worker adopt this "
                 "state"};
  if (!state || !*state)
    return fault{fault_kind::usage,
                 "no file came with the request; describe_vgpu returns one"};
  if (auto ok = exec_->host_shadow(); !ok)
    return ok;
  return arrival_.restore(state->get(), {.adopt = keeps_file});
}

// -- resume -------------------------------------------------------------------

/// Continues the session's calls, and revokes a pause.
status vgpu_state_actor::resume() {
  if (is_over())
    return fault{fault_kind::not_ready, "it has ended here"};
  postponed_.reset();
  checkpoint_.go_on();
  if (auto told = std::exchange(pause_ended_, nullptr))
    told(fault{fault_kind::not_ready, "it was resumed before it stood still"});
  return {};
}

// -- questions from the mailbox -----------------------------------------------

namespace {

caf::error refused(const std::string& name, const fault& why) {
  return make_error(vgpu_refusal::refused, name + ": " + why.what);
}

} // namespace

/// Returns why a question is not for this place, or no error.
template <class Question>
caf::error vgpu_state_actor::refusal_of(const Question& x) const {
  if (x.epoch != identity_.epoch)
    return make_error(vgpu_refusal::other_epoch,
                      name_ + ": " + identity_.text() + ", not in epoch " +
                          std::to_string(x.epoch.value) +
                          "; ask the manager where it is");
  if (is_over())
    return make_error(vgpu_refusal::gone,
                      name_ + " has ended here; ask the manager where it is");
  return {};
}

caf::typed_response_promise<vgpu_place>
vgpu_state_actor::answer(const pause_vgpu& x) {
  auto promise = make_response_promise<vgpu_place>();
  if (auto no = refusal_of(x); no)
    return promise.deliver(std::move(no));
  auto begun = pause({.compress = x.compress}, {},
                     [this, promise](const status& how) mutable {
                       if (how)
                         promise.deliver(where());
                       else
                         promise.deliver(refused(name_, how.why()));
                     });
  if (!begun)
    promise.deliver(refused(name_, begun.why()));
  return promise;
}

caf::result<vgpu_description> vgpu_state_actor::answer(const describe_vgpu& x) {
  if (auto no = refusal_of(x); no)
    return no;
  auto out = describe();
  if (!out)
    return refused(name_, out.why());
  return std::move(*out);
}

caf::result<vgpu_place> vgpu_state_actor::answer(const adopt_vgpu& x) {
  if (auto no = refusal_of(x); no)
    return no;
  if (auto ok = adopt(x.state, x.keeps_file); !ok)
    return refused(name_, ok.why());
  return where();
}

caf::result<vgpu_place> vgpu_state_actor::answer(const resume_vgpu& x) {
  if (auto no = refusal_of(x); no)
    return no;
  if (auto ok = resume(); !ok)
    return refused(name_, ok.why());
  arrived();
  return where();
}

void vgpu_state_actor::take(caf::exit_msg& x) {
  if (is_over())
    return;
  if (x.reason == caf::exit_reason::user_shutdown)
    end("it was stopped", true);
  step_ = session_step::over;
  fail_state(std::move(x.reason));
}

/// Answers the unanswered questions after the session has ended. CAF answers
/// later ones.
void vgpu_state_actor::answer_gone() {
  if (auto told = std::exchange(pause_ended_, nullptr))
    told(fault{fault_kind::not_ready, "it ended before it stood still"});
  read_mailbox();
}

// -- the typed handle ---------------------------------------------------------

vgpu_actor
spawn_vgpu_actor(caf::actor_system& system, vgpu_actor_options options,
                 std::unique_ptr<executor> exec,
                 std::unique_ptr<link_socket> socket, unique_fd listener,
                 std::shared_ptr<session_gauges> gauges, session_done done) {
  auto untyped = system.spawn<vgpu_state_actor, caf::detached>(
      std::move(options), std::move(exec), std::move(socket),
      std::move(listener), std::move(gauges), std::move(done));
  return caf::actor_cast<vgpu_actor>(untyped);
}

} // namespace vgpu
