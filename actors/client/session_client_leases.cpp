// The part of session_client for leases: how a worker gets the session, and how
// it hands the session over.
#include "actors/client/forwarded_channel.hpp"
#include "actors/client/guest_codec.hpp"
#include "actors/client/mapped_channel.hpp"
#include "actors/client/session_client.hpp"
#include "actors/client/session_parts.hpp"
#include "actors/link/log.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace vgpu {

// -- leases -------------------------------------------------------------------

void session_client::take_lease(const control::lease& lease) {
  if (!parts_)
    return;
  auto change = parts_->lease.compare(lease);
  if (change == session_lease::change::terms) {
    amend(lease);
    suspect_again();
  } else if (change == session_lease::change::place &&
             phase_ != session_phase::lost)
    serve(lease);
}

/// Changes the terms of a session that keeps its place.
void session_client::amend(const control::lease& next) {
  auto& lease = parts_->lease;
  if (lease.current().has_terms_of(next))
    return;
  lease.amend(next);
  auto& header = parts_->opened.header();
  header.quota.store(next.quota, std::memory_order_relaxed);
  lease.write_ticket(header);
  if (take_recovery(next.recovery))
    parts_->worker.send(data::wish{parts_->opened.specification.on_divergence});
}

/// Takes the terms by which the session recovers. Returns whether its worker
/// must learn of them.
bool session_client::take_recovery(const control::recovery_terms& x) {
  auto& asked = parts_->opened.specification;
  auto former = asked.on_divergence;
  control::set_recovery(asked, x);
  parts_->snapshots.promise_anew();
  return asked.on_divergence != former;
}

/// Gives the session to the worker of a new lease.
void session_client::serve(const control::lease& next) {
  auto& lease = parts_->lease;
  auto& header = parts_->opened.header();
  lease.grant(next);
  take_recovery(next.recovery); // the worker learns it when it is attached
  parts_->handover.abandon();
  parts_->snapshots.abandon();
  if (!pass_fence())
    return suspect("the worker of the former epoch may still run");
  auto follows = lease.follows_another();
  if (!choose_beginning())
    return lose_session(
        parts_->opened.is_protected()
            ? "its worker was lost and its snapshot cannot be used"
            : "its worker was lost and it had no protection");
  lease.forget_former();
  lease.write_ticket(header);
  header.served_epoch = next.epoch.value;
  charged_before_ = header.charged.load();
  begin_replay(follows);
  auto first = phase_ == session_phase::asking;
  enter(parts_->restore.held() ? session_phase::restoring
                               : session_phase::serving);
  attach();
  if (!first)
    return;
  if (auto ok = send_packet(program_.get(), guest::encode_welcome(next)); !ok)
    end(ok.why().what);
}

/// Makes sure that the former worker executes nothing. Returns false where that
/// cannot be known.
bool session_client::pass_fence() {
  auto& lease = parts_->lease;
  auto ok = parts_->fence.pass(lease.former(), lease.epoch());
  if (ok)
    return true;
  spdlog::error("session {}: {}", lease.session().value, ok.why().what);
  if (phase_ != session_phase::asking)
    enter(session_phase::fencing);
  return false;
}

/// Drops the former worker, and chooses what the next one restores. Returns
/// false where there is nothing to begin with.
bool session_client::choose_beginning() {
  auto& restore = parts_->restore;
  auto& worker = parts_->worker;
  auto* state = restore.held();
  // A state that a dead worker had restored became its memory and is lost.
  if (state && !state->snapshot && worker.channel() &&
      worker.channel()->restored_unheard()) {
    restore.discard();
    parts_->fence.forget_released();
  }
  worker.drop();
  auto follows = parts_->lease.follows_another();
  if (follows) {
    if (!restore.offer_lent(maps_log()))
      parts_->fence.forget_released();
    restore.choose();
  }
  auto* chosen = restore.held();
  parts_->snapshots.begin_epoch(follows && (!chosen || chosen->snapshot));
  return !follows || restore.held() || parts_->opened.may_replay_all();
}

void session_client::begin_replay(bool follows) {
  auto& replay = parts_->replay;
  if (!follows)
    return replay.begin_first();
  auto* state = parts_->restore.held();
  auto replays = !state || state->snapshot;
  replay.begin({.from = state && replays ? state->position : 0,
                .until = parts_->opened.header().tail.load(),
                .calls_before = parts_->restore.calls_before()},
               replays);
}

/// Ends the session where nothing is left to serve the program from. From now
/// on the program gets a CUDA error, as it does when a GPU falls off the bus.
void session_client::lose_session(const std::string& why) {
  enter(session_phase::lost);
  auto& parts = *parts_;
  auto& area = *parts.opened.area;
  auto& header = area.header();
  parts.handover.refuse(why);
  parts.handover.abandon();
  parts.snapshots.abandon();
  parts.restore.discard();
  parts.worker.drop();
  header.sticky_error = CUDA_ERROR_DEVICE_UNAVAILABLE;
  parts.reports.tell_event("session-lost",
                           parts.reports.program() + " lost its vGPU: " + why);
  each_slot(area, [&](slot_index index, call_number call) {
    area.answer(index, call, CUDA_ERROR_DEVICE_UNAVAILABLE, 0);
  });
  parts.opened.reader.rewind(
      std::max(header.trimmed.load(), header.executed.load()));
}

// -- the lease's worker -------------------------------------------------------

/// Returns whether the worker of the lease can map the call log.
bool session_client::maps_log() const {
  return options_.transport != transport::forwarded &&
         parts_->lease.current().worker.host == parts_->opened.program.host;
}

void session_client::attach() {
  auto mapped = maps_log() && attach_mapped();
  auto& apart = parts_->opened.header().host_apart;
  if ((apart.load() % 2 == 1) == mapped)
    apart.fetch_add(1);
  if (!mapped)
    return attach_forwarded();
  const auto& lease = parts_->lease.current();
  spdlog::info("session {}: epoch {} on {}, log mapped", lease.session.value,
               lease.epoch.value, lease.node);
}

bool session_client::attach_mapped() {
  auto channel =
      mapped_channel::open(parts_->opened, parts_->lease, make_attach(0),
                           parts_->restore.held(), *this);
  if (!channel)
    return false;
  parts_->worker.use(std::move(channel));
  return true;
}

void session_client::attach_forwarded() {
  const auto& lease = parts_->lease.current();
  if (auto good = forwarded_channel::check_keys(options_, lease.worker); !good)
    return suspect(good.why().what);
  try {
    parts_->worker.use(std::make_unique<forwarded_channel>(forwarding_parts{
        zmq_, options_, parts_->opened, parts_->lease, parts_->restore,
        parts_->answers, parts_->fence, busy_poll_, parts_->patience, *this}));
  } catch (const zmq::error_t& e) {
    return suspect("cannot connect to " + lease.worker.endpoint + ": " +
                   e.what());
  }
  spdlog::info("session {}: epoch {} on {}, calls forwarded to {}",
               lease.session.value, lease.epoch.value, lease.node,
               lease.worker.endpoint);
}

/// Returns the message that describes the session to the worker.
data::attach session_client::make_attach(std::uint64_t answers_seen) const {
  auto* state = parts_->restore.held();
  data::attach x;
  x.token = parts_->lease.current().token;
  x.answers_seen = answers_seen;
  x.replay_until = parts_->replay.until();
  x.restore = state ? state->bytes : 0;
  x.charged = charged_before_;
  x.process_checkpointed = is_process_away(phase_);
  x.on_divergence = parts_->opened.specification.on_divergence;
  x.covered = parts_->opened.covered();
  each_waiting(*parts_->opened.area, [&](slot_index index, call_number call) {
    x.waiting.push_back({call, index});
  });
  return x;
}

void session_client::suspect(const std::string& why) {
  auto& lease = parts_->lease;
  if (lease.suspected() || !lease.granted() || phase_ == session_phase::lost)
    return;
  lease.suspect(why);
  spdlog::warn("session {}: epoch {} on {}: {}", lease.session().value,
               lease.epoch().value, lease.current().node, why);
  parts_->reports.tell(control::suspect{lease.session(), lease.epoch(), why});
}

/// Repeats a suspicion for a manager that gives the worker's lease once more.
/// It heard of the suspicion while it had lost the worker's node, and has taken
/// the worker back together with the node.
void session_client::suspect_again() {
  auto& lease = parts_->lease;
  if (lease.suspected() && phase_ != session_phase::lost)
    parts_->reports.tell(control::suspect{lease.session(), lease.epoch(),
                                          lease.last_suspicion()});
}

data::attach session_client::begin_attach(std::uint64_t answers_seen) {
  if (auto* running = checkpoint())
    running->give_up("its connection broke meanwhile", false);
  return make_attach(answers_seen);
}

void session_client::on_attached(std::optional<std::uint64_t> received) {
  if (received)
    parts_->opened.reader.rewind(has_process_checkpoint(phase_)
                                     ? parts_->process.position()
                                     : *received);
  parts_->fence.forget_released();
  parts_->restore.restored(parts_->replay.follows(),
                           parts_->worker.is_mapped());
  if (phase_ == session_phase::restoring)
    enter(session_phase::serving);
}

void session_client::on_progress(const data::progress& x) {
  // A worker that maps the log writes its error there by itself, and may have
  // taken it back since.
  if (x.sticky != CUDA_SUCCESS && !parts_->worker.is_mapped())
    parts_->opened.header().sticky_error = static_cast<std::uint32_t>(x.sticky);
  auto replayed = !parts_->replay.done();
  parts_->replay.note(x);
  parts_->snapshots.note(x);
  parts_->touches.tell();
  if (replayed && parts_->replay.done())
    parts_->snapshots.note_replay(parts_->replay.lasted());
}

void session_client::on_answer() {
  parts_->replay.note_answer();
}

void session_client::on_message(const data::head& head,
                                worker_payload payload) {
  auto* running = checkpoint();
  if (auto* differs = std::get_if<data::differs>(&head.body)) {
    report_difference(*differs);
  } else if (auto* wanted = std::get_if<data::cover_wanted>(&head.body)) {
    parts_->snapshots.want_cover(wanted->position);
    check_cover();
  } else if (std::holds_alternative<data::back>(head.body)) {
    on_process_resumed();
  } else if (auto* stopped = std::get_if<data::checkpointed>(&head.body)) {
    // The worker must not stand still for an order that was given up.
    running ? running->take(*stopped, std::move(payload.files))
            : parts_->worker.send(data::go_on{});
  } else if (running) {
    if (auto* phase = std::get_if<data::checkpointing>(&head.body))
      running->note(*phase);
    else if (auto* part = std::get_if<data::state_part>(&head.body))
      running->take(*part, payload);
    else if (auto* why = std::get_if<data::not_checkpointed>(&head.body))
      running->give_up(why->why, true);
  }
}

/// Ends the session where its program waits for a result that no snapshot can
/// cover.
void session_client::check_cover() {
  if (auto why = parts_->snapshots.uncoverable(); !why.empty())
    lose_session("on-divergence is snapshot, and no snapshot can be taken "
                 "before the program reads a result: " +
                 why);
}

/// Reports that a replay's results differ from those that the program got, and
/// ends the session where it must not go on with them.
void session_client::report_difference(const data::differs& x) {
  std::string calls;
  for (auto call : x.calls)
    calls += (calls.empty() ? "" : ", ") + std::to_string(call);
  auto& reports = parts_->reports;
  auto event = reports.make_event(
      "replay-differs",
      reports.program() + " on vGPU " +
          std::to_string(parts_->lease.current().vgpu.value) +
          ": a replay's result differs from the one that the program got, or "
          "cannot be compared, in call number " +
          calls + (x.total > x.calls.size() ? " and others" : "") + " (" +
          std::to_string(x.total) + " in all)" +
          (x.first.empty() ? "" : "; in " + shown(x.first.substr(0, 300))));
  event.calls = x.total;
  reports.tell(std::move(event));
  if (x.fails)
    lose_session("a replay differs from what it has read, and on-divergence is "
                 "error");
}

// -- checkpoints --------------------------------------------------------------

/// Returns the checkpoint under way, or null.
checkpoint_taker* session_client::checkpoint() const {
  switch (phase_) {
  case session_phase::snapshotting:
    return &parts_->snapshots;
  case session_phase::checkpointing:
    return &parts_->handover;
  default:
    return nullptr;
  }
}

/// Takes the manager's order to pause the session. A repeated order, whose
/// first one may have been lost, gets the outcome of the first.
void session_client::pause(const control::pause_session& order) {
  if (!parts_)
    return;
  auto refuse = [&](const std::string& why) {
    parts_->reports.tell(
        control::paused{order.session, order.epoch, why, 0, 0});
  };
  const auto& lease = parts_->lease;
  if (phase_ == session_phase::lost || !lease.granted() ||
      lease.epoch() != order.epoch)
    return refuse("it is not served in this epoch");
  switch (phase_) {
  case session_phase::snapshotting: // this one is done soon
    return parts_->handover.postpone(order);
  case session_phase::checkpointing:
  case session_phase::checkpointed:
  case session_phase::called:
  case session_phase::process_checkpointed:
  case session_phase::process_called:
    return;
  default:
    break;
  }
  if (parts_->restore.held() || phase_ == session_phase::resuming)
    return refuse("it is being moved already");
  if (!parts_->worker.ready() || lease.suspected())
    return refuse("its worker does not answer");
  enter(session_phase::checkpointing);
  parts_->handover.begin(order);
}

void session_client::on_state(held_state state) {
  auto& lease = parts_->lease;
  std::chrono::duration<double, std::milli> stood = clock::now() - state.began;
  auto bytes = state.bytes;
  enter(session_phase::checkpointed);
  parts_->fence.note_released(lease.epoch());
  parts_->worker.send(data::detach{});
  parts_->worker.drop();
  parts_->opened.reader.rewind(state.position);
  parts_->restore.hold(std::move(state));
  parts_->reports.tell(control::paused{lease.session(), lease.epoch(), "",
                                       bytes, stood.count()});
}

void session_client::on_process_checkpointed(const data::checkpointed& stopped,
                                             std::chrono::nanoseconds stood) {
  enter(session_phase::process_checkpointed);
  // The client watches for the program's calls, because the worker does not.
  parts_->opened.reader.rewind(stopped.position);
  parts_->process.begin(stopped, stood);
}

void session_client::on_checkpoint_over() {
  enter(session_phase::serving);
  check_cover();
  if (phase_ == session_phase::lost)
    return;
  if (auto order = parts_->handover.take_postponed())
    pause(*order);
}

/// Resumes the checkpointed process, because there is room for it again.
void session_client::restore_process(const control::restore_process& order) {
  if (!parts_ || !has_process_checkpoint(phase_) ||
      parts_->lease.epoch() != order.epoch)
    return;
  enter(session_phase::resuming);
  parts_->process.resume();
  // The manager ignores suspicions of a suspended session's worker.
  parts_->lease.trust_again();
  if (!parts_->worker.ready())
    return suspect(
        "its worker's process was checkpointed, and does not answer");
  parts_->worker.send(data::go_on{});
}

void session_client::on_process_resumed() {
  if (!has_process_checkpoint(phase_))
    return;
  enter(session_phase::serving);
  // The worker has the calls that were sent before it was checkpointed.
  auto* channel = parts_->worker.channel();
  if (auto sent = channel ? channel->sent() : std::nullopt)
    parts_->opened.reader.rewind(*sent);
  parts_->process.end();
}

} // namespace vgpu
