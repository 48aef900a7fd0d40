#include "actors/client/session_handover.hpp"

#include "actors/state/state_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace vgpu {

void session_handover::begin(const control::pause_session& order) {
  auto mapped = parts().worker.is_mapped();
  data::checkpoint wanted{.compress = !mapped, .order = begin_progress()};
  wanted.may_checkpoint_process = order.suspend;
  wanted.next = order.next;
  // Lent memory is useful on this host only, so the session needs something
  // else to recover from.
  if (mapped && parts().opened.is_protected())
    wanted.lend_to = order.lend_to;
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
}

status session_handover::begin_transfer(data::checkpointed& x,
                                        std::vector<unique_fd> files) {
  if (parts().worker.is_mapped()) {
    if (!files.empty())
      file_ = std::move(files[0]);
    if (files.size() > 1)
      lent_ = std::move(files[1]);
    return {};
  }
  auto inflow = state_inflow::begin(x.bytes);
  if (!inflow)
    return inflow.why();
  inflow_ = std::move(*inflow);
  return {};
}

status session_handover::take_part(std::uint64_t from,
                                   std::span<const std::byte> bytes) {
  return inflow_ ? inflow_->take(from, bytes) : status{};
}

result<bool> session_handover::transfer() {
  if (!inflow_)
    return true;
  while (auto range = inflow_->want())
    parts().worker.send(*range);
  return inflow_->complete();
}

/// Returns a fault unless the state that arrived is the announced one.
status session_handover::check(int file, std::size_t& lent_count) const {
  auto state = state_reader::open(file);
  if (!state)
    return state.why();
  const auto& index = state->index();
  if (index.position != current().stopped->position)
    return fault{fault_kind::corrupt, "its state is of another call"};
  if (index.lent.empty() == bool{lent_})
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
  if (auto ok = check(state.file.get(), state.lent_count); !ok)
    return give_up(ok.why().what, false);
  if (auto ok = spill(state.file, stopped.bytes); !ok)
    return give_up(ok.why().what, false);
  state.lent = std::move(lent_);
  abandon();
  parts().listener.on_state(std::move(state));
}

} // namespace vgpu
