#include "actors/worker/serve/state_arrival.hpp"

#include "actors/lend/descriptor_parcel.hpp"
#include "actors/link/log.hpp"
#include "actors/state/state_file.hpp"

#include <utility>

namespace vgpu {

status state_arrival::restore(packet& hello, bool adopt) {
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

status state_arrival::restore(int file, bool adopt,
                              std::vector<unique_fd> lent) {
  if (!failure_.empty())
    return fault{fault_kind::internal, failure_};
  progress_.note();
  result<std::uint64_t> position = [&] {
    heartbeat_cover beating{heartbeats_};
    exec_.account().begin_recovery();
    return exec_.restore(file, adopt, std::move(lent));
  }();
  if (!position) {
    failure_ =
        "the session's state cannot be restored here: " + position.why().what;
    spdlog::error("session {}: {}", identity_.session.value, failure_);
    return position.why().reworded(failure_);
  }
  progress_.restored(*position);
  forwarded_.skip_to(*position);
  restored_ = true;
  return {};
}

void state_arrival::begin(const data::attach& by) {
  by_ = by;
  if (inflow_ && inflow_->bytes() == by.restore) {
    inflow_->ask_again();
  } else {
    auto begun = state_inflow::begin(by.restore);
    if (!begun)
      return forwarded_.send(data::refused{begun.why().what});
    inflow_ = std::move(*begun);
  }
  ask();
}

void state_arrival::ask() {
  while (auto wanted = inflow_->want())
    forwarded_.send(*wanted);
}

std::optional<data::attach> state_arrival::take(const data::state_part& x,
                                                const parcel_ptr& in) {
  if (!inflow_)
    return std::nullopt;
  if (auto ok = inflow_->take(x.from, in->bulk()); !ok) {
    forwarded_.send(data::refused{ok.why().what});
    return std::nullopt;
  }
  if (!inflow_->complete()) {
    ask();
    return std::nullopt;
  }
  auto done = restore(inflow_->file(), false);
  inflow_.reset();
  if (!done) {
    forwarded_.send(data::refused{done.why().what});
    return std::nullopt;
  }
  return by_;
}

} // namespace vgpu
