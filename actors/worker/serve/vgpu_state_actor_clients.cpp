// How the vGPU state actor handles its clients' messages.
#include "actors/worker/serve/vgpu_state_actor.hpp"

#include "actors/link/log.hpp"
#include "actors/worker/session/worker_bounds.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace vgpu {

// -- a client on this host ----------------------------------------------------

void vgpu_state_actor::read_guest() {
  auto in = mapped_.receive();
  if (in && !*in)
    return;
  if (in && take_from_guest(**in))
    return;
  // The devices' answers still reach the program. Further calls wait for a
  // client that attaches.
  spdlog::info("session {}: its client is gone", options_.session.value);
  silence_.heard(clock::now());
  mapped_.drop_client();
}

/// Returns false where the client is gone, or violated the protocol.
bool vgpu_state_actor::take_from_guest(packet& in) {
  if (in.closed)
    return false;
  auto head = data::decode(in.words);
  if (!head || !identity_.allows(*head))
    return false;
  if (std::holds_alternative<data::detach>(head->body))
    end("the program ended");
  else if (auto* x = std::get_if<data::checkpoint>(&head->body))
    (void)pause(*x, std::move(in.descriptors));
  else if (std::holds_alternative<data::go_on>(head->body))
    (void)resume();
  else if (auto* news = std::get_if<data::covered>(&head->body))
    on(*news);
  else if (auto* wish = std::get_if<data::wish>(&head->body))
    cover_.take(*wish);
  else
    return false;
  return true;
}

void vgpu_state_actor::attach_guest(packet& hello, unique_fd socket) {
  auto send_back = [&](data::body what) {
    (void)send_packet(socket.get(), identity_.encode(std::move(what)));
  };
  auto refuse = [&](const std::string& why) {
    spdlog::warn("session {}: a client was refused: {}", options_.session.value,
                 why);
    send_back(data::refused{why});
  };
  auto head = data::decode(hello.words);
  if (!head)
    return refuse(head.why().what);
  auto* x = std::get_if<data::attach>(&head->body);
  if (x == nullptr || !identity_.allows(*head) || x->token != identity_.token)
    return refuse(identity_.text() + "; show the lease of that epoch");
  if (auto ok = adopt(hello, *x); !ok)
    return refuse(ok.why().what);
  if (!x->process_checkpointed)
    (void)resume();
  arrived();
  // A forwarded client may have written the snapshots that it received to the
  // kept files.
  if (forwarded_.answers())
    exec_->forget_copies();
  progress_.begin(*x);
  forwarded_.drop_client();
  exec_->serve(guard_.in_front_of(mapped_.log()->answers, x->on_divergence));
  send_back(data::attached{progress_.now()});
  mapped_.serve(std::move(socket), progress_.position());
  guard_.begin();
  cover_.begin(*x);
  look_replayed();
}

// -- a client elsewhere -------------------------------------------------------

void vgpu_state_actor::read_messages() {
  auto count = 0;
  for (;;) {
    // Whoever keeps sending, also during the calls that are executed here, must
    // not keep the log, the mailbox and the lease from their turn.
    if (count++ == worker_bounds::read_at_once)
      return;
    auto in = forwarded_.next_postponed();
    // A postponed message counted as heard when it was received.
    auto is_new = in == nullptr;
    if (is_new)
      in = forwarded_.receive();
    if (!in)
      return silence_.drained();
    auto head = head_of(*in);
    if (!head) {
      if (auto before = strange_.admits(in->peer(), log_limit::clock::now()))
        spdlog::warn("session {}: dropped a message of {}: {}{}",
                     options_.session.value, printable(in->peer()),
                     head.why().what, note_suppressed(*before));
      continue;
    }
    take(in->peer(), *head, in, is_new);
    if (is_over())
      return;
    // Somebody may wait for it, and checking for more messages takes a while.
    if (step_ != session_step::out_of_turn) {
      execute_forwarded();
      forwarded_.send_answers();
    }
  }
}

void vgpu_state_actor::take(const std::string& peer, const data::head& head,
                            const parcel_ptr& in, bool is_new) {
  if (!identity_.allows(head)) {
    if (auto before = strange_.admits(peer, log_limit::clock::now()))
      spdlog::warn("session {}: refused a message for session {} in epoch {}{}",
                   options_.session.value, head.session.value, head.epoch.value,
                   note_suppressed(*before));
    return forwarded_.send(peer, data::refused{identity_.text()});
  }
  if (auto* x = std::get_if<data::attach>(&head.body))
    return on(peer, *x);
  if (auto* x = std::get_if<data::join>(&head.body))
    return on(peer, *x);
  auto calls = std::holds_alternative<data::calls>(head.body);
  if (calls ? !forwarded_.takes_calls_of(peer) : !forwarded_.is_client(peer))
    return forwarded_.send(peer, data::refused{"show the lease's token first"});
  check_abandoned();
  if (silence_.lapsed())
    return refuse_lapsed(peer);
  if (is_new)
    silence_.heard(clock::now());
  take_from_client(head, in);
}

/// Reports once that the lease has lapsed. After the lease everything under way
/// comes again.
void vgpu_state_actor::refuse_lapsed(const std::string& peer) {
  if (silence_.refuses())
    forwarded_.send(peer, data::refused{"the lease has lapsed; show it again"});
}

/// Handles a message that comes during a call from the client, where its lease
/// has lapsed. The call may wait for what the client sends, so the client may
/// show its lease before the call ends. Runs on the heartbeat thread. Returns
/// false for a message that waits for the call's end.
bool vgpu_state_actor::take_lapsed(const parcel_ptr& in) {
  if (!silence_.lapsed() || !forwarded_.is_client(in->peer()))
    return false;
  auto head = head_of(*in);
  if (!head || !identity_.allows(*head))
    return false;
  auto* x = std::get_if<data::attach>(&head->body);
  if (x == nullptr) {
    refuse_lapsed(in->peer());
    return true;
  }
  if (x->token != identity_.token || x->process_checkpointed ||
      arrival_.is_wanted(*x))
    return false;
  silence_.renew(clock::now());
  forwarded_.attach_again(*x);
  auto at = progress_.latest();
  at.received = std::max(forwarded_.received(), progress_.position());
  forwarded_.send_attached(at);
  return true;
}

void vgpu_state_actor::take_from_client(const data::head& head,
                                        const parcel_ptr& in) {
  if (auto* calls = std::get_if<data::calls>(&head.body))
    on(*calls, in);
  else if (auto* alive = std::get_if<data::keepalive>(&head.body))
    on(*alive);
  else if (std::holds_alternative<data::detach>(head.body))
    end("the program ended");
  else if (auto* where = std::get_if<data::checkpoint>(&head.body))
    (void)pause(*where, {});
  else if (std::holds_alternative<data::go_on>(head.body))
    (void)resume();
  else if (auto* wanted = std::get_if<data::state_wanted>(&head.body))
    describe(*wanted);
  else if (auto* news = std::get_if<data::covered>(&head.body))
    on(*news);
  else if (auto* wish = std::get_if<data::wish>(&head.body))
    cover_.take(*wish);
  else if (auto* part = std::get_if<data::state_part>(&head.body))
    on(*part, in);
}

void vgpu_state_actor::on(const std::string& peer, const data::attach& x) {
  if (x.token != identity_.token)
    return forwarded_.send(peer, data::refused{"the token is not the lease's"});
  if (auto ok = exec_->host_shadow(); !ok)
    return forwarded_.send(peer, data::refused{ok.why().what});
  if (!arrival_.is_wanted(x))
    (void)arrival_.come_without();
  if (!arrival_.failure().empty())
    return forwarded_.send(peer, data::refused{arrival_.failure()});
  mapped_.drop_client();
  silence_.renew(clock::now());
  forwarded_.attach(peer, x, progress_.position());
  exec_->serve(guard_.in_front_of(forwarded_.answers(), x.on_divergence));
  if (!x.process_checkpointed)
    (void)resume();
  if (adopt(x))
    begin_replay(x);
}

void vgpu_state_actor::begin_replay(const data::attach& by) {
  arrived();
  progress_.begin(by);
  forwarded_.send_attached(progress_.now());
  guard_.begin();
  cover_.begin(by);
  look_replayed();
}

/// Begins to take calls.
void vgpu_state_actor::arrived() {
  if (step_ != session_step::arriving)
    return;
  step_ = session_step::between_calls;
}

void vgpu_state_actor::on(const std::string& peer, const data::join& x) {
  if (x.token != identity_.token || !forwarded_.has_client())
    return forwarded_.send(
        peer, data::refused{"the token is not the lease's, or no first "
                            "connection has shown it"});
  forwarded_.join(peer);
  forwarded_.send(peer, data::join{});
  spdlog::info("session {}: its client has a second connection",
               options_.session.value);
}

void vgpu_state_actor::on(const data::keepalive& x) {
  forwarded_.answers()->acknowledge(x.answers_seen);
  progress_.note_reported();
  (void)progress_.charge();
  if (forwarded_.has_lost(x.sent))
    forwarded_.send_attached(progress_.now());
  else
    forwarded_.send(progress_.now());
}

void vgpu_state_actor::on(const data::covered& x) {
  cover_.take(x);
  checkpoint_.covered(x.position);
}

void vgpu_state_actor::on(const data::calls& x, const parcel_ptr& in) {
  if (!forwarded_.take(x, in))
    forwarded_.send_attached(progress_.now());
}

void vgpu_state_actor::on(const data::state_part& x, const parcel_ptr& in) {
  auto by = arrival_.take(x, in);
  if (!by)
    return;
  if (auto file = arrival_.take_file())
    checkpoint_.keep_restored(std::move(file));
  begin_replay(*by);
}

} // namespace vgpu
