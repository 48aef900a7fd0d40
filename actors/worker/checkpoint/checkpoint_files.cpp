#include "actors/worker/checkpoint/checkpoint_files.hpp"

#include "actors/state/state_file.hpp"
#include "actors/state/state_transfer.hpp"

#include <unistd.h>

#include <utility>

namespace vgpu {

void checkpoint_files::begin(std::vector<unique_fd> places) {
  places_ = std::move(places);
  state_ = unique_fd{};
}

status checkpoint_files::choose(bool keep, bool to_disk) {
  if (state_)
    return {};
  on_disk_ = places_.size() > 1 && to_disk;
  if (!places_.empty()) {
    state_ = std::move(places_[on_disk_ ? 1 : 0]);
    return {};
  }
  auto& file = keep ? kept_ : state_;
  if (!file) {
    auto fresh = make_state_memory();
    if (!fresh)
      return fresh.why();
    file = std::move(*fresh);
  }
  if (keep)
    state_ = duplicate_of(kept_.get());
  if (!state_)
    return fault{fault_kind::system, "no descriptor is left for a state"};
  return {};
}

std::vector<int> checkpoint_files::handed_over() const {
  std::vector<int> out{state_.get()};
  if (lent_)
    out.push_back(lent_.get());
  return out;
}

void checkpoint_files::note_taken(bool snapshot) {
  lent_ = unique_fd{};
  if (snapshot)
    state_ = unique_fd{};
}

void checkpoint_files::forget() {
  places_.clear();
  state_ = unique_fd{};
  lent_ = unique_fd{};
}

result<checkpoint_files::whole_state> checkpoint_files::whole() const {
  whole_state out{duplicate_of(state_.get()), 0};
  if (!out.file)
    return fault{fault_kind::not_ready,
                 "there is no file with its state; pause it first"};
  out.bytes = static_cast<std::uint64_t>(::lseek(out.file.get(), 0, SEEK_END));
  return out;
}

std::shared_ptr<const std::vector<std::byte>>
checkpoint_files::part(const data::state_wanted& what) const {
  if (!state_)
    return nullptr;
  auto size = ::lseek(state_.get(), 0, SEEK_END);
  return part_of_state(state_.get(), static_cast<std::uint64_t>(size), what);
}

} // namespace vgpu
