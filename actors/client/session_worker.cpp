#include "actors/client/session_worker.hpp"

#include <utility>

namespace vgpu {

void session_worker::use(std::unique_ptr<worker_channel> channel) {
  drop();
  channel_ = std::move(channel);
}

void session_worker::drop() noexcept {
  if (!channel_)
    return;
  channel_->close();
  dropped_.push_back(std::move(channel_));
}

void session_worker::send(data::body what) const {
  if (channel_)
    channel_->send(std::move(what));
}

void session_worker::send_with(data::body what,
                               std::span<const int> descriptors) const {
  if (channel_)
    channel_->send_with(std::move(what), descriptors);
}

} // namespace vgpu
