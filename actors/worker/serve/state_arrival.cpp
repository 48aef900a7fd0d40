#include "actors/worker/serve/state_arrival.hpp"

#include "actors/lend/descriptor_parcel.hpp"
#include "actors/link/log.hpp"
#include "actors/state/state_file.hpp"

#include <utility>

namespace vgpu {

namespace {

restore_terms terms_of(const data::attach& by, bool adopt) {
  auto snapshots = by.covered != 0 && by.covered != data::covered::everything;
  return {.adopt = adopt, .snapshots = snapshots};
}

} // namespace

status state_arrival::restore(packet& hello, const data::attach& by) {
  auto how = terms_of(by, by.adopt);
  constexpr auto place = session_area::descriptor_count + 1;
  auto file = hello.descriptors[place].get();
  if (hello.descriptors.size() <= place + 1)
    return restore(file, std::move(how));
  auto state = state_reader::open(file);
  if (!state)
    return state.why();
  auto lent = unpack_descriptors(hello.descriptors[place + 1].get(),
                                 state->index().lent.size());
  if (!lent)
    return lent.why();
  how.lent = std::move(*lent);
  return restore(file, std::move(how));
}

status state_arrival::restore(int file, restore_terms how) {
  if (!failure_.empty())
    return fault{fault_kind::internal, failure_};
  progress_.note();
  result<std::uint64_t> position = [&] {
    heartbeat_cover beating{heartbeats_};
    exec_.account().begin_recovery();
    return exec_.restore(file, std::move(how));
  }();
  if (!position)
    return fail(position.why());
  progress_.restored(*position);
  forwarded_.skip_to(*position);
  restored_ = true;
  return {};
}

status state_arrival::come_without() {
  if (!exec_.awaits_state())
    return {};
  return fail(
      {fault_kind::missing,
       "its objects were made for a state, and none comes; have another "
       "worker serve it"});
}

unique_fd state_arrival::former_contents() const {
  return contents_ ? duplicate_of(contents_->get()) : unique_fd{};
}

fault state_arrival::fail(const fault& why) {
  failure_ = "the session's state cannot be restored here: " + why.what;
  spdlog::error("session {}: {}", identity_.session.value, failure_);
  return why.reworded(failure_);
}

void state_arrival::begin(const data::attach& by) {
  by_ = by;
  if (inflow_ && inflow_->size() == by.restore) {
    inflow_->ask_again();
    return ask();
  }
  auto file = make_state_memory();
  if (!file)
    return refuse(file.why());
  auto begun =
      snapshot_inflow::begin(by.restore, std::move(*file), former_contents());
  if (!begun)
    return refuse(begun.why());
  inflow_ = std::move(*begun);
  ask();
}

void state_arrival::refuse(const fault& why) {
  forwarded_.send(data::refused{why.what});
}

void state_arrival::ask() {
  while (auto wanted = inflow_->want())
    forwarded_.send(*wanted);
}

status state_arrival::store(const data::state_part& x, const parcel_ptr& in) {
  auto ok = inflow_->take(x.from, in->bulk());
  if (!ok || !inflow_->works())
    return ok;
  heartbeat_cover beating{heartbeats_};
  while (ok && inflow_->works())
    ok = inflow_->work();
  return ok;
}

status state_arrival::restore_arrived() {
  auto lent = unpack_lent();
  if (!lent)
    return fail(lent.why());
  // Nobody else has this file, so its pages may become the session's memory.
  auto how = terms_of(by_, true);
  how.lent = std::move(*lent);
  auto ok = restore(inflow_->file(), std::move(how));
  if (ok && !exec_.adopts_files())
    file_ = duplicate_of(inflow_->file());
  return ok;
}

/// Returns the memory that comes with the state, directly from the former
/// worker.
result<std::vector<unique_fd>> state_arrival::unpack_lent() const {
  auto state = state_reader::open(inflow_->file());
  if (!state)
    return state.why();
  auto& index = state->index();
  if (index.lent.empty())
    return std::vector<unique_fd>{};
  if (!lent_ || !lent_->parcel || lent_->position != index.position)
    return fault{fault_kind::missing,
                 "the memory that it lends was handed to another worker"};
  return unpack_descriptors(lent_->parcel.get(), index.lent.size());
}

std::optional<data::attach> state_arrival::take(const data::state_part& x,
                                                const parcel_ptr& in) {
  if (!inflow_)
    return std::nullopt;
  if (auto ok = store(x, in); !ok) {
    inflow_.reset();
    refuse(fail(ok.why()));
    return std::nullopt;
  }
  if (!inflow_->complete()) {
    ask();
    return std::nullopt;
  }
  auto done = restore_arrived();
  {
    heartbeat_cover beating{heartbeats_}; // freeing much memory takes a while
    auto came = inflow_->bytes();
    spdlog::debug("session {}: of its state, {} bytes travelled and {} were "
                  "copied from its former worker",
                  identity_.session.value, came.travelled, came.copied);
    inflow_.reset();
    contents_.reset();
    lent_.reset();
  }
  if (!done) {
    refuse(done.why());
    return std::nullopt;
  }
  return by_;
}

} // namespace vgpu
