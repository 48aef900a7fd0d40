#include "actors/client/session_handover.hpp"

#include "actors/state/state_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace vgpu {

namespace {

/// Gives the largest round after which the session stands still, in bytes.
constexpr std::uint64_t small_round = std::uint64_t{32} << 20;
constexpr unsigned most_rounds = 8;

} // namespace

// -- orders -------------------------------------------------------------------

void session_handover::begin(const control::pause_session& order) {
  order_ = order;
  rounds_ = 0;
  came_ahead_ = came_last_ = 0;
  if (may_copy_ahead())
    order_changes(form::ahead);
  else
    order_whole();
}

/// Returns whether the worker may hand its memory to the next one itself. Lent
/// memory is useful there only, so the session needs something else to recover
/// from.
bool session_handover::may_lend() const {
  return order_.next && !order_.lend_to.empty() &&
         parts().opened.is_protected();
}

/// Returns whether the state can travel while calls are executed, and makes
/// room for it. A mapped worker hands over its file. The state of a session
/// that is to sleep is kept compressed.
bool session_handover::may_copy_ahead() {
  if (parts().worker.is_mapped() || order_.suspend)
    return false;
  auto file = make_state_memory();
  if (file)
    file_ = std::move(*file);
  return file.ok();
}

void session_handover::order_whole() {
  auto mapped = parts().worker.is_mapped();
  forget_state();
  form_ = form::whole;
  data::checkpoint wanted{.compress = !mapped, .order = begin_progress()};
  wanted.may_checkpoint_process = order_.suspend;
  if (rounds_ == 0)
    wanted.next = order_.next;
  // Lent memory is useful on this host only, so the session needs something
  // else to recover from.
  if (mapped && parts().opened.is_protected())
    wanted.lend_to = order_.lend_to;
  parts().worker.send(std::move(wanted));
}

/// Orders what changed since the last round. The next worker is told once.
void session_handover::order_changes(form what) {
  form_ = what;
  data::checkpoint wanted{.compress = false,
                          .go_on = what == form::ahead,
                          .order = begin_progress(),
                          .in_memory = options_.state_memory};
  if (rounds_ == 0) {
    wanted.next = order_.next;
    wanted.may_leave = what == form::ahead && may_lend();
  }
  if (wanted.may_leave)
    wanted.lend_to = order_.lend_to;
  parts().worker.send(std::move(wanted));
}

void session_handover::refuse(const std::string& why) {
  if (postponed_ || running())
    parts().reports.refuse_pause(why);
}

void session_handover::give_up(const std::string& why, bool) {
  checkpoint_taker::abandon();
  forget_state();
  parts().worker.send(data::go_on{});
  parts().reports.refuse_pause(why);
  parts().listener.on_checkpoint_over();
}

void session_handover::abandon() noexcept {
  checkpoint_taker::abandon();
  postponed_.reset();
  forget_state();
}

void session_handover::forget_state() noexcept {
  file_ = unique_fd{};
  lent_ = unique_fd{};
  inflow_.reset();
  arriving_.reset();
}

// -- the transfer -------------------------------------------------------------

status session_handover::begin_transfer(data::checkpointed& x,
                                        std::vector<unique_fd> files) {
  if (parts().worker.is_mapped()) {
    if (!files.empty())
      file_ = std::move(files[0]);
    if (files.size() > 1)
      lent_ = std::move(files[1]);
    return {};
  }
  if (x.leaves && form_ == form::ahead)
    form_ = form::rest; // there is no further round
  if (form_ != form::whole)
    return begin_changes(x.bytes);
  auto inflow = state_inflow::begin(x.bytes);
  if (!inflow)
    return inflow.why();
  inflow_ = std::move(*inflow);
  return {};
}

/// Begins to receive what is not here yet. A state that is too large for memory
/// is ordered whole afterwards.
status session_handover::begin_changes(std::uint64_t bytes) {
  if (form_ == form::ahead && bytes > options_.state_memory)
    return {};
  const auto& opened = parts().opened;
  auto newest = opened.places.at(opened.header().newest.load() - 1);
  auto inflow = snapshot_inflow::begin(bytes, duplicate_of(file_.get()),
                                       duplicate_of(newest));
  if (!inflow)
    return inflow.why();
  arriving_.emplace(std::move(*inflow), parts().ring);
  return {};
}

status session_handover::take_part(std::uint64_t from,
                                   const worker_payload& part) {
  if (arriving_)
    arriving_->take(from, part.bytes, part.owner);
  return inflow_ ? inflow_->take(from, part.bytes) : status{};
}

result<bool> session_handover::transfer() {
  if (arriving_)
    return take_changes();
  if (!inflow_)
    return true;
  while (auto range = inflow_->want())
    parts().worker.send(*range);
  return inflow_->complete();
}

result<bool> session_handover::take_changes() {
  for (auto& range : arriving_->wanted())
    parts().worker.send(range);
  return arriving_->complete();
}

/// Orders the next round, or the rest while the session stands still.
void session_handover::end_round() {
  ++rounds_;
  parts().worker.send(data::go_on{});
  if (!arriving_)
    return order_whole();
  auto came = arriving_->bytes().travelled;
  arriving_.reset();
  auto last = is_last_round(came);
  came_ahead_ += came;
  came_last_ = came;
  order_changes(last ? form::rest : form::ahead);
}

/// Returns whether another round would not make the rest smaller.
bool session_handover::is_last_round(std::uint64_t came) const {
  auto grows = rounds_ > 1 && came > came_last_ / 4 * 3;
  return came <= small_round || grows || rounds_ >= most_rounds;
}

// -- the state ----------------------------------------------------------------

/// Returns a fault unless the state that arrived is the announced one.
status session_handover::check(int file, std::size_t& lent_count) const {
  auto state = state_reader::open(file);
  if (!state)
    return state.why();
  const auto& index = state->index();
  if (index.position != current().stopped->position)
    return fault{fault_kind::corrupt, "its state is of another call"};
  auto directly = current().stopped->leaves;
  if (!directly && index.lent.empty() == bool{lent_})
    return fault{fault_kind::corrupt,
                 "the memory that its state lends did not come"};
  lent_count = index.lent.size();
  return {};
}

/// Moves a large state to a disk. Its file has no name, so it ends with its
/// descriptor.
status session_handover::spill(unique_fd& file, std::uint64_t bytes) const {
  if (bytes <= options_.state_memory)
    return {};
  auto path = options_.state_dir + "/vgpu-state-" +
              std::to_string(parts().lease.session().value) + "-" +
              std::to_string(parts().lease.epoch().value) + "-" +
              std::to_string(::getpid());
  if (auto ok = save_state(file.get(), bytes, path); !ok)
    return ok;
  unique_fd saved{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  ::unlink(path.c_str());
  if (!saved)
    return fault{fault_kind::system, "cannot open " + path + " again"};
  file = std::move(saved);
  return {};
}

void session_handover::finish() {
  if (form_ == form::ahead)
    return end_round();
  auto stopped = *current().stopped;
  auto stood_since = current().stands;
  if (stopped.process_checkpointed) {
    abandon();
    return parts().listener.on_process_checkpointed(stopped,
                                                    clock::now() - stood_since);
  }
  held_state state{.file = inflow_ ? inflow_->release() : std::move(file_),
                   .bytes = stopped.bytes,
                   .position = stopped.position,
                   .began = stood_since};
  state.came_ahead = came_ahead_;
  state.travelled = arriving_ ? arriving_->bytes().travelled : 0;
  if (auto ok = check(state.file.get(), state.lent_count); !ok)
    return give_up(ok.why().what, false);
  if (auto ok = spill(state.file, stopped.bytes); !ok)
    return give_up(ok.why().what, false);
  state.lent = std::move(lent_);
  state.lent_directly = stopped.leaves && state.lent_count != 0;
  abandon();
  parts().listener.on_state(std::move(state));
}

} // namespace vgpu
