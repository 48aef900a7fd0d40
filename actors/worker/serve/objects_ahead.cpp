#include "actors/worker/serve/objects_ahead.hpp"

#include "actors/state/state_file.hpp"

#include <utility>

namespace vgpu {

result<objects_ahead> objects_ahead::begin(executor& exec,
                                           replay_progress& progress,
                                           heartbeat_thread& heartbeats,
                                           passing pass_on) {
  auto file = make_state_memory();
  if (!file)
    return file.why();
  auto begun = exec.begin_description(file->get());
  if (!begun)
    return begun.why();
  objects_ahead out{progress, heartbeats, std::move(pass_on)};
  out.file_ = std::move(*file);
  out.description_ = std::move(*begun);
  return out;
}

std::optional<status> objects_ahead::look() {
  if (writes()) {
    auto ok = write_on();
    return ok ? std::nullopt : std::optional{ok};
  }
  auto outcome = maker_->outcome();
  if (outcome)
    file_ = unique_fd{};
  return outcome;
}

/// Writes the next piece, and passes the file on after the last one.
status objects_ahead::write_on() {
  auto complete = description_->images_on();
  if (!complete)
    return complete.why();
  if (!*complete)
    return {};
  progress_->note();
  position_ = progress_->position();
  auto written = [&] {
    heartbeat_cover beating{*heartbeats_};
    return description_->run_for_dry_run();
  }();
  description_.reset();
  if (!written)
    return written.why();
  auto begun = pass_on_(file_.get());
  if (!begun)
    return begun.why();
  maker_ = std::move(*begun);
  return {};
}

} // namespace vgpu
