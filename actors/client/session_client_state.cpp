// A session whose state is taken from one worker and given to another.
#include "actors/client/fence.hpp"
#include "actors/client/session_client_forwarding.hpp"
#include "actors/lend/descriptor_parcel.hpp"
#include "actors/state/state_file.hpp"

#include <spdlog/spdlog.h>

#include <fcntl.h>
#include <unistd.h>

#include <thread>

namespace vgpu {

namespace {

using namespace std::chrono_literals;

double milliseconds_since(std::chrono::steady_clock::time_point when) {
  using milliseconds = std::chrono::duration<double, std::milli>;
  return milliseconds{std::chrono::steady_clock::now() - when}.count();
}

} // namespace

void session_client::tell_worker(data::body what) {
  if (worker_)
    (void)send_packet(
        worker_.get(),
        data::encode({lease_->session, lease_->epoch, std::move(what)}));
  else if (forwarding_)
    send(std::move(what));
}

void session_client::pause(const control::pause_session& order) {
  auto refuse = [&](const std::string& why) {
    tell(control::paused{order.session, order.epoch, why, 0, 0});
  };
  if (lost_ || !lease_ || lease_->epoch != order.epoch)
    return refuse("it is not served in this epoch");
  // A snapshot is soon done.
  if (movement_ && movement_->snapshot) {
    postponed_ = order;
    return;
  }
  // Ordered again, as the first may have been lost: what comes of that is told
  // when it is known, and was told if it is done.
  auto done = (let_go_ && held_ && gave_way_ == order.epoch) ||
              (aside_ && !aside_->ordered);
  if (movement_ || done)
    return;
  if (held_ || aside_)
    return refuse("it is being moved already");
  auto attached = worker_ || (forwarding_ && forwarding_->attached);
  if (!attached || suspected_)
    return refuse("its worker does not answer");
  begin_movement(false);
  data::checkpoint wanted{.compress = !worker_, .order = movement_->order};
  wanted.or_aside = order.suspend;
  // What is lent can be taken up on this host alone: if nobody there can, there
  // must be something else to begin with.
  if (worker_ && is_protected())
    wanted.lend_to = order.lend_to;
  tell_worker(std::move(wanted));
}

/// What both kinds of workers say of it.
void session_client::take_movement(const data::head& head,
                                   std::vector<unique_fd> files) {
  if (auto* x = std::get_if<data::differs>(&head.body))
    on(*x);
  else if (auto* phase = std::get_if<data::checkpointing>(&head.body))
    on(*phase);
  else if (auto* stopped = std::get_if<data::checkpointed>(&head.body))
    on(*stopped, std::move(files));
  else if (auto* returned = std::get_if<data::back>(&head.body))
    on(*returned);
  else if (auto* why = std::get_if<data::not_checkpointed>(&head.body))
    movement_ && movement_->snapshot ? give_up_snapshot(why->why, true)
                                     : cancel_movement(why->why);
}

void session_client::on(const data::checkpointing& x) {
  if (!movement_ || x.order != movement_->order)
    return;
  movement_->phase = x.now;
  movement_->since = clock::now();
  if (x.now == data::checkpointing::phase::copying)
    movement_->copied_ahead = true;
  if (x.now == data::checkpointing::phase::stopping)
    movement_->stands = movement_->since;
}

/// How long the worker may take for what it is at: not long while the program
/// waits.
std::chrono::milliseconds session_client::phase_within() const {
  using phase = data::checkpointing::phase;
  constexpr std::chrono::milliseconds written_within = 10min;
  constexpr std::chrono::milliseconds rest_within = 5s;
  if (movement_->phase == phase::copying || movement_->phase == phase::resting)
    return written_within;
  return movement_->snapshot && worker_
             ? std::min(rest_within, options_.pause_within)
             : options_.pause_within;
}

void session_client::on(const data::checkpointed& x,
                        std::vector<unique_fd> files) {
  // Of an order that was given up: the worker must not stay like this.
  if (!movement_)
    return tell_worker(data::go_on{});
  if (movement_->stopped || x.order != movement_->order)
    return;
  movement_->stopped = x;
  if (x.aside)
    return look_at_movement();
  if (worker_) {
    if (!movement_->snapshot && !files.empty())
      movement_->file = std::move(files[0]);
    if (!movement_->snapshot && files.size() > 1)
      movement_->lent = std::move(files[1]);
    return look_at_movement();
  }
  if (movement_->snapshot) {
    if (auto ok = receive_snapshot(*movement_->stopped); !ok)
      return give_up_snapshot(ok.why().what, true);
    return look_at_movement();
  }
  auto inflow = state_inflow::begin(x.bytes);
  if (!inflow)
    return cancel_movement(inflow.why().what);
  movement_->inflow = std::move(*inflow);
  look_at_movement();
}

void session_client::on(const data::state_part& x, const parcel_ptr& in) {
  if (!movement_ || (!movement_->inflow && !movement_->arriving))
    return;
  auto ok = movement_->inflow ? movement_->inflow->take(x.from, in->bulk())
                              : movement_->arriving->take(x.from, in->bulk());
  if (!ok)
    // As of a worker on this host that finds no room: the program must not wait
    // for ever for a snapshot.
    movement_->snapshot ? give_up_snapshot(ok.why().what, true)
                        : cancel_movement(ok.why().what);
}

/// A call that was begun before, and whose answer is still on its way.
bool session_client::waits_before(std::uint64_t position) const {
  for (unsigned i = 1; i < slot_count; ++i) {
    auto index = static_cast<slot_index>(i);
    call_number call{area_->at(index).call.load()};
    if (call.value < position && area_->waits(index, call))
      return true;
  }
  return false;
}

/// What of it has to travel is asked for.
bool session_client::is_state_here() {
  auto ask = [&](auto& inflow) {
    while (auto range = inflow.want())
      tell_worker(*range);
    return inflow.complete();
  };
  if (movement_->inflow)
    return ask(*movement_->inflow);
  if (!movement_->arriving)
    return true;
  if (auto ok = movement_->arriving->work(); !ok) {
    give_up_snapshot(ok.why().what, true);
    return false;
  }
  return ask(*movement_->arriving);
}

void session_client::look_at_movement() {
  if (sleeps_until_called() && reader_->ready()) {
    woken_ = true;
    tell(control::wake_session{lease_->session});
  }
  if (!movement_)
    return;
  if (suspected_ || (!worker_ && !(forwarding_ && forwarding_->attached)))
    return cancel_movement("its worker does not answer any more");
  // The worker of a snapshot goes on: what is left takes what it takes.
  auto goes_on = movement_->snapshot && movement_->stopped;
  auto limit = phase_within();
  if (!goes_on && clock::now() - movement_->since > limit) {
    auto why = "it does not come to rest within " +
               std::to_string(limit.count()) +
               " ms; a kernel or a host function of the program takes longer, "
               "or there is too much memory";
    return movement_->snapshot ? give_up_snapshot(why, true)
                               : cancel_movement(why);
  }
  if (!movement_->stopped)
    return;
  if (!is_state_here())
    return;
  if (waits_before(movement_->stopped->position) ||
      (forwarding_ && forwarding_->answers_seen < movement_->stopped->answers))
    return;
  if (movement_->snapshot)
    keep_snapshot();
  else if (movement_->stopped->aside)
    leave_aside();
  else
    hold_state();
}

/// The session runs on where it is.
void session_client::cancel_movement(const std::string& why) {
  if (!movement_)
    return;
  if (movement_->snapshot)
    return give_up_snapshot(why, false);
  movement_.reset();
  tell_worker(data::go_on{});
  tell(control::paused{lease_->session, lease_->epoch, why, 0, 0});
}

/// What is much lies on a disk, without a name: it goes with its descriptor.
status session_client::spill(unique_fd& file, std::uint64_t bytes) const {
  if (bytes <= options_.state_memory)
    return {};
  auto path = options_.state_dir + "/vgpu-state-" +
              std::to_string(lease_->session.value) + "-" +
              std::to_string(lease_->epoch.value) + "-" +
              std::to_string(::getpid());
  if (auto ok = vgpu::save_state(file.get(), bytes, path); !ok)
    return ok;
  unique_fd saved{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  ::unlink(path.c_str());
  if (!saved)
    return fault{CUDA_ERROR_OPERATING_SYSTEM, "cannot open " + path + " again"};
  file = std::move(saved);
  return {};
}

/// All of it is here, and all answers are with the program: the worker may go.
void session_client::hold_state() {
  auto& stopped = *movement_->stopped;
  auto file = movement_->inflow ? movement_->inflow->release()
                                : std::move(movement_->file);
  auto state = state_reader::open(file.get());
  if (!state)
    return cancel_movement(state.why().what);
  if (state->index().position != stopped.position)
    return cancel_movement("its state is of another call");
  auto lends = !state->index().lent.empty();
  if (lends != bool{movement_->lent})
    return cancel_movement("the memory that its state lends did not come");
  if (auto ok = spill(file, stopped.bytes); !ok)
    return cancel_movement(ok.why().what);
  held_.emplace();
  held_->file = std::move(file);
  held_->lent = std::move(movement_->lent);
  held_->lent_count = state->index().lent.size();
  held_->bytes = stopped.bytes;
  held_->position = stopped.position;
  held_->began = movement_->stands;
  movement_.reset();
  let_go_ = true;
  gave_way_ = lease_->epoch;
  woken_ = false;
  tell_worker(data::detach{});
  worker_ = unique_fd{};
  forwarding_.reset();
  reader_->rewind(held_->position);
  tell(control::paused{lease_->session, lease_->epoch, "", held_->bytes,
                       milliseconds_since(held_->began)});
}

/// A state that lends memory is of no use elsewhere, and the next worker takes
/// the memory away with it.
void session_client::offer_lending() {
  if (!held_ || !held_->lent)
    return;
  std::string why = "it goes on elsewhere than where its memory is";
  if (maps_log()) {
    auto copy = copy_parcel(held_->lent, held_->lent_count);
    if (copy) {
      held_->offered = std::move(*copy);
      return;
    }
    why = "the memory that goes along is lost: " + copy.why().what;
  }
  held_.reset();
  let_go_ = false;
  tell(make_event("state-refused",
                  program_.name + ": " + why +
                      "; it is recovered from its snapshot or journal"));
}

void session_client::on(const data::state_wanted& x) {
  if (!held_)
    return;
  auto part = part_of_state(held_->file.get(), held_->bytes, x);
  if (!part)
    return;
  dispatch out;
  put_frames(
      out,
      data::encode({lease_->session, lease_->epoch, data::state_part{x.from}}),
      *part, part);
  last_contact_ = clock::now();
  if (forwarding_->socket.send(out) != link_socket::sent::yes)
    forwarding_->attached = false;
}

/// Ends the worker of the former epoch, or waits until its lease has run out.
bool session_client::fence() {
  if (!former_ || former_->epoch == lease_->epoch)
    return true;
  // One that handed over its state and was let go executes nothing, however
  // long it takes to give its memory back.
  if (let_go_ && former_->epoch == gave_way_)
    return true;
  if (former_->worker.host == host_) {
    auto ended = end_worker(former_->worker.guest_socket, 5000ms);
    if (!ended)
      spdlog::error("session {}: {}", lease_->session.value, ended.why().what);
    return ended.ok();
  }
  // Nothing was sent to those that were to follow it.
  if (let_go_)
    return true;
  // Elsewhere it stops by itself, a lease's term after it last heard of us. Of
  // a client that died before us we know no better than now.
  constexpr auto margin = 50ms;
  auto last =
      last_contact_ == clock::time_point{} ? clock::now() : last_contact_;
  // What is waited for is nothing but time.
  std::this_thread::sleep_until(last + options_.lease_term + margin);
  return true;
}

/// The last that a worker said which is gone now: if it began with the state
/// that is held, what it was given may have become its memory, and is no state
/// any more.
void session_client::look_at_former() {
  while (worker_ && held_ && !held_->snapshot) {
    auto in = receive_packet(worker_.get());
    if (!in || !*in || (*in)->closed)
      return;
    auto head = data::decode((*in)->words);
    if (!head || !std::holds_alternative<data::attached>(head->body))
      continue;
    held_.reset();
    let_go_ = false;
  }
}

/// A worker serves the session: if it began with a state, that is used up.
void session_client::restored() {
  let_go_ = false;
  if (!held_) {
    // Somebody may wait for it who had it suspended under another client.
    if (moved_)
      tell(control::restored{lease_->session, lease_->epoch, 0, 0});
    return;
  }
  // After a failure the replay is what is told of.
  auto bytes = held_->snapshot ? 0 : held_->bytes;
  tell(control::restored{lease_->session, lease_->epoch, bytes,
                         milliseconds_since(held_->began)});
  held_.reset();
}

void session_client::on(const data::differs& x) {
  std::string calls;
  for (auto call : x.calls)
    calls += (calls.empty() ? "" : ", ") + std::to_string(call);
  auto event = make_event(
      "replay-differs",
      program_.name + " on vGPU " + std::to_string(lease_->vgpu.value) +
          ": the replay brought other bytes than the program has had, in call "
          "number " +
          calls + (x.total > x.calls.size() ? " and others" : "") + " (" +
          std::to_string(x.total) +
          " in all); a kernel of it gives another result each time");
  event.calls = x.total;
  tell(std::move(event));
}

} // namespace vgpu
