#include "actors/client/session_client.hpp"

#include "actors/client/guest_codec.hpp"
#include "actors/client/session_parts.hpp"
#include "actors/link/log.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

using namespace std::chrono_literals;

namespace {

/// Returns the handle of a session_client. A blocking actor has no static type;
/// session_client::read_mailbox() takes the messages of the handle's type.
session_client_actor handle_of(const auto& x) {
  return caf::actor_cast<session_client_actor>(x);
}

} // namespace

session_client_actor spawn_session_client(caf::actor_system& system,
                                          zmq::context_t& zmq,
                                          session_client_options options,
                                          unique_fd guest,
                                          session_owner owner) {
  return handle_of(system.spawn<session_client, caf::detached>(
      std::ref(zmq), std::move(options), std::move(guest), std::move(owner)));
}

session_client::session_client(caf::actor_config& cfg, zmq::context_t& zmq,
                               session_client_options options, unique_fd guest,
                               session_owner owner)
    : polling_actor(cfg), zmq_(zmq), options_(std::move(options)),
      program_(std::move(guest)), owner_(std::move(owner)) {}

session_client::~session_client() = default;

void session_client::act() {
  while (phase_ != session_phase::ended) {
    auto program_ready = wait();
    read_mailbox();
    if (program_ready)
      read_program();
    if (parts_ && phase_ != session_phase::ended)
      work();
  }
  parts_.reset();
  owner_ = nullptr;
}

void session_client::work() {
  auto& worker = parts_->worker;
  if (auto* channel = worker.channel())
    channel->read();
  forward();
  wake_manager();
  if (auto* running = checkpoint())
    running->advance();
  take_snapshot();
  parts_->restore.free_some();
  if (auto* channel = worker.channel())
    channel->tend();
  fail_calls();
  worker.sweep();
}

/// Ends the session, because the program is gone or violates the protocol.
void session_client::end(const std::string& why) {
  if (phase_ == session_phase::ended)
    return;
  enter(session_phase::ended);
  auto named = parts_ && !parts_->opened.program.name.empty();
  spdlog::info("{}: {}", named ? parts_->opened.program.name : "a program",
               why);
  // The worker learns at once that no more calls will come.
  if (parts_)
    parts_->worker.send(data::detach{});
}

// -- waiting ------------------------------------------------------------------

/// Returns whether the client waits for calls in the log, too.
bool session_client::reads_calls() const {
  if (!parts_ || has_process_checkpoint(phase_))
    return sleeps(phase_);
  auto* channel = parts_->worker.channel();
  return phase_ == session_phase::lost || sleeps(phase_) ||
         (channel && channel->takes_calls());
}

/// Returns how long to wait at most; negative: until something happens.
std::chrono::milliseconds session_client::patience() const {
  if (!parts_)
    return -1ms;
  if (checkpoint() != nullptr)
    return 5ms;
  if (parts_->restore.frees())
    return 1ms;
  auto* channel = parts_->worker.channel();
  constexpr auto never = clock::time_point::max();
  auto next = channel ? channel->next_tend() : never;
  if (may_snapshot())
    next = std::min(next, parts_->snapshots.due());
  if (next == never)
    return -1ms;
  auto rest = std::chrono::ceil<std::chrono::milliseconds>(next - clock::now());
  return std::max(rest, 1ms);
}

/// Waits until there is work. Returns true where the program sent something.
bool session_client::wait() {
  items_.clear();
  items_.push_back({program_.get(), POLLIN, 0});
  auto* channel = parts_ ? parts_->worker.channel() : nullptr;
  auto overlooked = channel && channel->add_to(items_);
  busy_poll_or_sleep(channel, overlooked);
  if (channel)
    channel->note_ready(items_, overlooked);
  return items_[0].revents != 0;
}

void session_client::busy_poll_or_sleep(worker_channel* channel,
                                        bool overlooked) {
  auto began = clock::now();
  auto at_most = overlooked ? 0ms : patience();
  auto reads = reads_calls();
  auto polls =
      channel && !channel->is_mapped() && channel->ready() && at_most != 0ms;
  auto has_calls = [&] { return reads && parts_->opened.reader.ready(); };
  auto has_messages = [&] { return channel->has_messages(items_); };
  if (polls && busy_poll_on(items_, busy_poll_, has_calls, has_messages, began))
    return;
  auto asleep = reads && parts_->opened.reader.fall_asleep();
  if (asleep)
    items_.push_back({parts_->opened.doorbell.get(), POLLIN, 0});
  sleep_on(items_, reads && !asleep ? 0ms : at_most);
  if (asleep) {
    parts_->opened.reader.awake(items_.back().revents != 0);
    items_.pop_back();
  }
  if (polls)
    busy_poll_.learned(clock::now() - began);
}

// -- calls --------------------------------------------------------------------

/// Sends calls to a forwarded worker.
void session_client::forward() {
  auto* channel = parts_->worker.channel();
  if (!channel || has_process_checkpoint(phase_))
    return;
  if (auto ok = channel->forward(); !ok)
    end(ok.why().what);
}

/// Asks the manager for a place, because the program of a sleeping session has
/// called.
void session_client::wake_manager() {
  if (!sleeps(phase_) || !parts_->opened.reader.ready())
    return;
  enter(phase_ == session_phase::checkpointed ? session_phase::called
                                              : session_phase::process_called);
  parts_->reports.tell(control::wake_session{parts_->lease.session()});
}

bool session_client::may_snapshot() const {
  // A replay may come to a read that the program still waits for.
  return phase_ == session_phase::serving && !parts_->lease.suspected() &&
         (parts_->replay.done() || parts_->snapshots.wants_cover()) &&
         parts_->worker.ready();
}

void session_client::take_snapshot() {
  if (!may_snapshot())
    return;
  parts_->snapshots.begin_if_due();
  if (parts_->snapshots.running())
    enter(session_phase::snapshotting);
}

/// Answers each call of a lost session's program with an error.
void session_client::fail_calls() {
  if (phase_ != session_phase::lost)
    return;
  auto& opened = parts_->opened;
  for (;;) {
    auto got = opened.reader.next();
    if (!got)
      return end(got.why().what);
    if (!*got)
      break;
    opened.area->answer((*got)->slot, (*got)->call,
                        CUDA_ERROR_DEVICE_UNAVAILABLE, 0);
  }
  opened.area->publish_executed(opened.reader.position());
}

// -- the manager --------------------------------------------------------------

void session_client::read_mailbox() {
  if (mailbox().empty())
    return; // making the handlers takes as long as reading some messages
  receive_while([this] { return !mailbox().empty(); })(
      [this](lease_ptr& lease) { take_lease(*lease); },
      [this](refusal_ptr& why) { refuse(*why); },
      [this](watched_ptr& what) { send_watched(*what); },
      [this](news_ptr& what) { send_waiting(what->text); },
      [this](pause_order_ptr& order) { pause(*order); },
      [this](restore_process_ptr& order) { restore_process(*order); },
      [this](caf::exit_msg& msg) {
        enter(session_phase::ended);
        fail_state(std::move(msg.reason));
      },
      caf::others >> [](caf::message_view&) -> caf::result<caf::message> {
        return caf::sec::unexpected_message;
      });
}

void session_client::refuse(const control::refusal& why) {
  if (parts_ && parts_->lease.granted())
    return lose_session(why.reason);
  (void)send_packet(program_.get(), guest::encode_refusal(why));
  end("refused: " + why.reason);
}

void session_client::send_watched(const guest::watched& what) {
  (void)send_packet(program_.get(), guest::encode_watched(what));
  end("has the vGPUs of its group");
}

/// Reports to the program why there is no place yet. A program that loses its
/// place later gets no report: its call just takes longer.
void session_client::send_waiting(const std::string& why) {
  if (parts_ && parts_->opened.hears_waiting && !parts_->lease.granted())
    (void)send_packet(program_.get(), guest::encode_waiting(why));
}

// -- the program --------------------------------------------------------------

void session_client::read_program() {
  auto in = receive_packet(program_.get());
  if (!in)
    return end(in.why().what);
  if (!*in)
    return;
  if ((*in)->closed)
    return end("the program ended");
  if (parts_)
    take_notice(**in);
  else
    open(std::move(**in));
}

/// Takes the program's request.
void session_client::open(packet in) {
  auto hello = guest::decode_hello(in.words);
  if (!hello)
    return end(hello.why().what);
  auto self = handle_of(this);
  if (hello->watches)
    return caf::anon_send(owner_, self,
                          std::make_shared<const guest_watches>(
                              guest_watches{hello->specification.group}));
  auto opened = opened_session::take(*hello, in);
  if (!opened)
    return end(opened.why().what);
  checkpoint_listener& listener = *this;
  parts_ = std::make_unique<session_parts>(std::move(*opened), options_, owner_,
                                           listener, [this] { ring(); });
  enter(session_phase::asking);
  auto& what = parts_->opened;
  auto out = std::make_shared<guest_opened>();
  out->program = what.program;
  out->area = what.area;
  if (hello->resumed) {
    auto ticket = what.read_ticket();
    if (!ticket)
      return end(ticket.why().what);
    parts_->lease.take_over(ticket->lease);
    take_recovery(ticket->lease.recovery);
    out->resumed = ticket->adopt;
    out->resumed->specification = what.specification;
    out->resumed->program = what.program;
  }
  out->specification = what.specification;
  caf::anon_send(owner_, self, guest_opened_ptr{std::move(out)});
}

void session_client::take_notice(const packet& in) {
  auto what = guest::decode_notice(in.words);
  auto& snapshots = parts_->snapshots;
  if (!what)
    spdlog::warn("session {}: {}", parts_->lease.session().value,
                 what.why().what);
  else if (*what == guest::notice::shares)
    snapshots.note_sharing();
  else if (phase_ == session_phase::checkpointing)
    snapshots.measure_journal();
  else
    snapshots.note_filling();
}

} // namespace vgpu
